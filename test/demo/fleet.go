package main

import (
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/attempt"
	"github.com/fxccm/fxccm/test/internal/endpoint"
)

const (
	fleetNamespace = "fxccm-system"
	fleetAccount   = "fxccm-fleet"
	// fleetName begins the names of the Leases.
	fleetName = "demo"

	clusterCount = 30
	joiningCount = 10
)

//go:embed clusters.yaml
var clustersKind []byte

// fleetWorld is a management cluster, an OpenStack with two projects, the clusters of a fleet, and
// the replicas that serve them.
type fleetWorld struct {
	stage
	projects []project
	cloud    *openstacktest.Cloud

	mu      sync.Mutex
	members []*member
}

// project is a project of OpenStack, which the clusters of one team use.
type project struct {
	team, id, network, conf string
}

// member is a cluster of the fleet: its API endpoint, and the record of the replicas' changes.
type member struct {
	name     string
	project  *project
	endpoint *endpoint.Endpoint
	// close closes the endpoint. It can be called again.
	close func() error

	mu sync.Mutex
	// turns are the replicas that changed the cluster, in order. A replica is listed again when it
	// follows another one.
	turns []string
}

// inFleet is the name of the cluster in the fleet, and lease the name of its Lease.
func (m *member) inFleet() string { return m.project.team + "." + m.name }
func (m *member) lease() string   { return fleetName + "." + m.inFleet() }
func (m *member) node() string    { return endpoint.NodeName(m.name, "node") }

func newFleet(t *attempt.T, binary string) *fleetWorld {
	binary = executable(t, "binary", binary)
	w := &fleetWorld{stage: newStage(t)}
	for _, name := range []string{"replica-a", "replica-b", "replica-c"} {
		w.add(t, name, binary, "https", "/readyz", func(port int) []string {
			return []string{
				"fleet",
				"--kubeconfig=" + w.file("fleet.kubeconfig"),
				"--cloud-provider=openstack",
				"--clusters=clusterapi",
				"--clusters-trusted", // the API servers are on loopback
				"--name=" + fleetName,
				"--namespace=" + fleetNamespace,
				"--identity=" + name,
				"--user-agent=" + name, // names the replica in OpenStack's record of calls
				"--configure-cloud-routes=false",
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(port),
				"--v=2",
			}
		})
	}
	return w
}

// startManagement starts the management cluster, with the kind of Cluster API and the shipped rules
// of a fleet.
func (w *fleetWorld) startManagement(t *attempt.T) {
	w.startControlPlane(t)
	w.addNamespace(t, fleetNamespace)
	var kind map[string]any
	t.Check(yaml.UnmarshalStrict(clustersKind, &kind))
	rules, err := deploy.Read(deploy.FleetRBAC)
	t.Check(err)
	rules = append(rules, &unstructured.Unstructured{Object: kind})
	w.allow(t, rules, fleetNamespace, fleetAccount, "fleet.kubeconfig")
}

func (w *fleetWorld) addNamespace(t *attempt.T, name string) {
	_, err := w.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	t.Check(err)
}

// serveProjects starts an OpenStack with two projects, each with its own network.
func (w *fleetWorld) serveProjects(t *attempt.T) {
	w.cloud = openstacktest.NewCloud(openstacktest.WithRegion(region), openstacktest.WithAdmin())
	w.closers = append(w.closers, func() error {
		w.cloud.Close()
		return nil
	})
	w.cloud.Provision(openstacktest.ProvisioningRule{Duration: provisioning / 2})
	w.cloud.AddFlavor(openstacktest.Flavor{Name: machineType, VCPUs: 4, RAM: 8192, Disk: 80})
	outside := w.cloud.AddNetwork(openstacktest.Network{Name: "outside", External: true})
	w.cloud.AddSubnet(
		openstacktest.Subnet{Name: "outside", NetworkID: outside, CIDR: "203.0.113.0/24"})
	for i, team := range []string{"team-a", "team-b"} {
		login := w.cloud.AddProject(openstacktest.Project{Name: team})
		p := project{team: team, id: login.ProjectID}
		p.network = w.cloud.AddNetwork(
			openstacktest.Network{Name: team, ProjectID: p.id})
		subnet := w.cloud.AddSubnet(openstacktest.Subnet{
			Name: team, NetworkID: p.network, CIDR: fmt.Sprintf("10.%d.0.0/16", i),
		})
		router := w.cloud.AddRouter(openstacktest.Router{
			Name: team, ProjectID: p.id, ExternalNetworkID: outside,
		})
		t.Check(w.cloud.ConnectSubnet(router, subnet))
		p.conf = login.CloudConf("password") +
			"\n[LoadBalancer]\nfloating-network-id = " + outside + "\n"
		w.projects = append(w.projects, p)
		w.addNamespace(t, team)
	}
}

// addMember creates a cluster with a machine, a node and a Service, and adds it to the fleet, like
// Cluster API. The teams get clusters alternately.
func (w *fleetWorld) addMember(t *attempt.T) {
	number := len(w.clusters())
	m := &member{
		name: fmt.Sprintf("cluster-%02d", number+1), project: &w.projects[number%len(w.projects)],
	}
	server := w.cloud.AddServer(openstacktest.Server{
		Name: m.node(), ProjectID: m.project.id, AvailabilityZone: zoneOf(number),
		Flavor: machineType,
	})
	w.cloud.AddPort(openstacktest.Port{
		NetworkID: m.project.network, ProjectID: m.project.id, DeviceID: server,
		DeviceOwner: machineOwner + zoneOf(number),
	})
	w.addNamespace(t, m.name)
	node := ccmtest.TaintedNode(m.node(), ccmtest.NodeLabel(endpoint.PartLabel, m.name))
	_, err := w.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	t.Check(err)
	w.addService(t, m, "web")
	m.endpoint, err = endpoint.Start(w.controlPlane.RESTConfig(), m.name,
		endpoint.WithHandler(m.record))
	t.Check(err)
	m.close = sync.OnceValue(m.endpoint.Close)
	w.closers = append(w.closers, m.close)
	w.mu.Lock()
	w.members = append(w.members, m)
	w.mu.Unlock()
	w.writeKubeconfig(t, m)
	secret := m.secret("-cloud-config", "cloud.conf", []byte(m.project.conf))
	_, err = w.client.CoreV1().Secrets(m.project.team).Create(t.Context(), secret,
		metav1.CreateOptions{})
	t.Check(err)
	t.Check(deploy.Create(t.Context(), w.controlPlane.RESTConfig(), metav1.CreateOptions{},
		m.object()))
}

func (w *fleetWorld) addService(t *attempt.T, m *member, name string) {
	service := ccmtest.LoadBalancerService(name, ccmtest.ServiceNamespace(m.name))
	_, err := w.client.CoreV1().Services(m.name).Create(t.Context(), service,
		metav1.CreateOptions{})
	t.Check(err)
}

// writeKubeconfig creates or updates the Secret with the cluster's kubeconfig.
func (w *fleetWorld) writeKubeconfig(t *attempt.T, m *member) {
	path := w.file(m.name + ".kubeconfig")
	t.Check(controlplane.WriteKubeconfig(path, m.endpoint.RESTConfig()))
	data, err := os.ReadFile(path)
	t.Check(err)
	secrets := w.client.CoreV1().Secrets(m.project.team)
	secret := m.secret("-kubeconfig", "value", data)
	_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	t.Check(err)
}

func (m *member) secret(suffix, key string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   m.name + suffix,
			Labels: map[string]string{"cluster.x-k8s.io/cluster-name": m.name},
		},
		Data: map[string][]byte{key: data},
	}
}

// object is the cluster's object in the management cluster.
func (m *member) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"name": m.name, "namespace": m.project.team},
	}}
}

// record records which replica changes an object of the cluster.
func (m *member) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			m.mu.Lock()
			for part := range strings.SplitSeq(r.UserAgent(), "/") {
				if strings.HasPrefix(part, "replica-") &&
					(len(m.turns) == 0 || m.turns[len(m.turns)-1] != part) {
					m.turns = append(m.turns, part)
				}
			}
			m.mu.Unlock()
		}
		next.ServeHTTP(rw, r)
	})
}

func (m *member) turnsSoFar() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.turns)
}

// clusters are the added clusters, in order.
func (w *fleetWorld) clusters() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.members)
}

func (w *fleetWorld) statusArguments() []string {
	args := []string{
		"fleet", "status", "--kubeconfig=" + w.file("admin.kubeconfig"),
		"--insecure-skip-tls-verify",
	}
	for _, r := range w.all {
		args = append(args, fmt.Sprintf("--server=https://127.0.0.1:%d", r.port))
	}
	return args
}

func (w *fleetWorld) howToLookAround() string {
	return fmt.Sprintf(`Look around from another terminal:
  export KUBECONFIG=%[1]s
  kubectl get clusters -A
  kubectl -n %[2]s get leases
  kubectl get nodes,services -A
  %[3]s %[4]s --watch
  tail -f %[5]s
`, w.file("admin.kubeconfig"), fleetNamespace, w.all[0].binary, strings.Join(w.statusArguments(), " "),
		w.all[0].log)
}
