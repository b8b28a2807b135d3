package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/endpoint"
)

const (
	// fleetProgram is a replica of a fleet.
	fleetProgram = "fleet"
	// fleetNamespace has the Leases of the fleets, in the management cluster, which is the API
	// server behind all endpoints.
	fleetNamespace = "fxccm-system"
	// restless is for how long replicas that have just started are not counted.
	restless = 30 * time.Second
)

// fleetResult is what was measured of fleets.
type fleetResult struct {
	// beside has one more cluster beside a process of upstream's.
	beside comparison
	// figures have targets of their own.
	figures []figure
	// owners show what one more cluster has, by owner.
	owners []table
	// slopes show what more clusters cost one replica.
	slopes table
}

func (b *bench) noteFleet(title string, value float64, u unit, target float64) {
	b.note(&b.results.fleet.figures, figure{title: title, value: value, unit: u, target: target})
}

// measureFleet measures what one more cluster costs, a replica with many clusters, and the
// hand-over and the loss of a replica.
func measureFleet(b *bench) {
	b.trial("one more cluster", 0, (*trial).measureFurther)
	b.trial(fmt.Sprintf("%d clusters", b.smallClusters), 0, (*trial).measureSize)
	b.trial("a replica ends", 0, (*trial).measureEnds)
}

// A part of the cluster is shown to one candidate as if it were a cluster of its own, at an
// endpoint of its own, with a cloud of its own.
type part struct {
	name     string
	endpoint *endpoint.Endpoint
	// cloud is the fake cloud of its own; openStack is what it has instead, which it may share.
	cloud      *cloudServer
	openStack  *openStack
	kubeconfig string
	// requests counts those of the candidate, except watches.
	requests atomic.Int64
}

// openParts opens n parts, each with nodes that have just registered and Services that wait.
// awaitSetUp waits until the nodes are initialized and the Services have an address. Each part has
// a fake cloud of its own, or one of the given clouds.
func (t *trial) openParts(
	prefix string, n, nodes, services int, clouds ...*openStack,
) (parts []*part, awaitSetUp func()) {
	var registered []*corev1.Node
	var waiting []*corev1.Service
	for i := range n {
		t.update("cluster %d of %d is created", i+1, n)
		p := t.openPart(fmt.Sprintf("%s-%03d", prefix, i))
		if len(clouds) > 0 {
			p.openStack = clouds[i]
		}
		parts = append(parts, p)
		for j := range nodes {
			registered = append(registered, t.newPartNode(p, fmt.Sprintf("node-%04d", j)))
		}
		for j := range services {
			service := newService(fmt.Sprintf("%s-service-%04d", p.name, j), 2)
			service.Namespace = p.name
			waiting = append(waiting, service)
		}
	}
	inParallel(t, parts, func(ctx context.Context, p *part) error {
		return t.createNamespace(ctx, p.name)
	})
	t.createNodes(registered...)
	t.createServices(waiting...)
	t.settle()
	allNodes := t.watchNodes(len(registered), isInitialized)
	allServices := t.watchServed(waiting)
	return parts, func() {
		allNodes.wait()
		allServices.wait()
	}
}

// openPart opens a part that is closed with the trial, after the trial's processes have ended.
func (t *trial) openPart(name string) *part {
	p := &part{name: name, cloud: serveCloud(t.T)}
	var err error
	p.endpoint, err = endpoint.Start(t.account, name, endpoint.WithHandler(p.count))
	t.Check(err)
	t.Cleanup(func() { t.Check(p.endpoint.Close()) })
	p.kubeconfig = t.writeKubeconfig(name, p.endpoint.RESTConfig())
	return p
}

// count counts requests in front of the endpoint.
func (p *part) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			p.requests.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

// newPartNode returns a node of the part that has just registered, and that the part's cloud has.
func (t *trial) newPartNode(p *part, name string) *corev1.Node {
	node := newNode(endpoint.NodeName(p.name, name))
	node.Labels[endpoint.PartLabel] = p.name
	if p.openStack != nil {
		p.openStack.addNode(node.Name)
	} else {
		t.Check(p.cloud.current.Load().AddInstances(fake.Instance{Name: node.Name}))
	}
	return node
}

// startReplica starts a replica of the named fleet for the parts. One of weight 0 takes clusters
// only if no other replica does.
func (t *trial) startReplica(name string, parts []*part, weight int) *process {
	var clusters []map[string]string
	for _, p := range parts {
		cluster := map[string]string{
			"name": p.name, "kubeconfig": p.kubeconfig, "cloud": p.cloud.address,
		}
		if p.openStack != nil {
			cluster["provider"], cluster["cloud"] = "openstack", p.openStack.config("")
		}
		clusters = append(clusters, cluster)
	}
	list, err := json.Marshal(clusters)
	t.Check(err)
	address := fmt.Sprintf("127.0.0.1:%d", t.freePort())
	p := t.startProgram(fmt.Sprintf("fleet %s of %d clusters", name, len(parts)), fleetProgram,
		"http://"+address,
		"--clusters="+t.writeFile(fmt.Sprintf("clusters-%d.json", t.started), string(list)),
		"--address="+address, "--name="+name, "--namespace="+fleetNamespace,
		"--kubeconfig="+t.kubeconfig, fmt.Sprintf("--weight=%d", weight))
	p.parts = parts
	return p
}

// served are the clusters that a replica leads, with informers that have synced and controllers
// that run.
func (t *trial) served(p *process) (names []string, err error) {
	body, err := t.get(p, "/statusz")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var current fleet.Status
	err = json.NewDecoder(body).Decode(&current)
	for _, c := range current.Clusters {
		if c.State == status.Leading && c.Ready {
			names = append(names, c.Name)
		}
	}
	return names, err
}

// awaitServed waits until the replicas serve all of their clusters together.
func (t *trial) awaitServed(replicas ...*process) {
	all := len(replicas[0].parts)
	for {
		var names []string
		for _, r := range replicas {
			served, _ := t.served(r) // perhaps it does not listen yet
			names = append(names, served...)
		}
		slices.Sort(names)
		served := len(slices.Compact(names))
		t.update("%d of %d clusters are served", served, all)
		if served == all {
			return
		}
		t.pause(250 * time.Millisecond)
	}
}

// awaitRest waits until the processes have come to rest, without a forced garbage collection.
func (t *trial) awaitRest() { t.letPass(t.rest, "rests") }

// fleetPage is the page on fleets.
func (r report) fleetPage() page {
	result := r.results.fleet
	figures, beside := figureTable(result.figures), result.beside.table()
	return page{
		"Fleets", append([]table{figures, beside, result.slopes}, result.owners...),
		"benchmarks-fleet",
		map[string]any{
			"Figures": figures, "Beside": beside, "Owners": result.owners,
			"Slopes": result.slopes, "HalfClusters": r.settings.smallClusters / 2,
			"CloudSettle": r.settings.cloudSettle,
			"CloudIdle":   r.settings.cloudIdle, "SharingClusters": sharingClusters,
			"Upstream": r.versions.upstream, "Rest": r.settings.rest,
			"FurtherNodes": furtherNodes, "FurtherServices": furtherServices,
			"Clusters": r.settings.clusters, "Further": r.settings.clusters - 1,
			"SmallClusters": r.settings.smallClusters, "SmallNodes": smallNodes,
			"SmallServices": smallServices, "LossClusters": r.settings.lossClusters,
			"LossReplicas": lossReplicas, "LossNodes": lossNodes, "LossServices": lossServices,
			"Load": r.machine.load,
		},
	}
}
