package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

func (w *fleetWorld) story() story {
	return story{
		preparation: []step{
			{"a management cluster starts", 2 * time.Minute, w.prepareManagement},
			{"thirty clusters are created", 2 * time.Minute, w.prepareClusters},
		},
		chapters: []step{
			{"three replicas share the clusters", 4 * time.Minute, w.startFleet},
			{"a replica is killed, the others serve its clusters", 3 * time.Minute, w.killReplica},
			{"the killed replica comes back", 3 * time.Minute, w.startKilled},
			{"ten clusters join", 3 * time.Minute, w.joinClusters},
			{"a cluster's token is replaced", 2 * time.Minute, w.replaceToken},
			{"a cluster leaves the fleet", 2 * time.Minute, w.removeCluster},
			{"fxccm fleet status shows each cluster", time.Minute, w.showStatus},
			{"no cluster was served twice, no request forbidden", time.Minute, w.lookBack},
		},
		ending: []step{
			{"the replicas stop cleanly", time.Minute, w.endFleet},
			{"no process and no file is left", time.Minute, w.end},
		},
	}
}

func (w *fleetWorld) prepareManagement(t *attempt.T) string {
	w.startManagement(t)
	w.serveProjects(t)
	return fmt.Sprintf("an API server with Cluster API's kind at %s, an OpenStack with %d projects at %s",
		w.controlPlane.RESTConfig().Host, len(w.projects), w.cloud.URL())
}

func (w *fleetWorld) prepareClusters(t *attempt.T) string {
	for range clusterCount {
		w.addMember(t)
	}
	return "each has an API endpoint, a token, a node, a Service and a project"
}

func (w *fleetWorld) startFleet(t *attempt.T) string {
	w.start(t, w.all...)
	seen := w.awaitServed(t, w.clusters()...)
	w.awaitPlaced(t)
	return seen
}

// awaitPlaced waits until fxccm fleet status shows that the preferred replica leads each cluster,
// so that clusters no longer move.
func (w *fleetWorld) awaitPlaced(t *attempt.T) {
	w.until(t, func() error {
		var current struct{ Clusters []fleet.ClusterStatus }
		out, err := exec.CommandContext(t.Context(), w.all[0].binary,
			append(w.statusArguments(), "--output=json")...).Output()
		if err != nil {
			return fmt.Errorf("fxccm fleet status: %w: %s", err, out)
		}
		if err := json.Unmarshal(out, &current); err != nil {
			return err
		}
		for _, c := range current.Clusters {
			if c.State != status.Leading || !c.Ready || c.Leader != c.Preferred {
				return fmt.Errorf("%s is %s, ready %v, led by %s, preferred is %s: %s", c.Name,
					c.State, c.Ready, c.Leader, c.Preferred, c.Reason)
			}
		}
		return expect("the number of clusters", len(current.Clusters), len(w.clusters()))
	})
}

// awaitServed waits until each running replica leads, and the clusters are served.
func (w *fleetWorld) awaitServed(t *attempt.T, members ...*member) string {
	var seen []string
	w.until(t, func() error {
		v, err := w.view(t.Context())
		if err != nil {
			return err
		}
		for _, m := range members {
			if err := v.served(m); err != nil {
				return err
			}
		}
		seen = nil
		for _, r := range w.all {
			leads := v.count(r.name, w.clusters())
			if (r.pid() != 0) != (leads > 0) {
				return fmt.Errorf("%s leads %d clusters; it %s", r.name, leads, r.state(false))
			}
			seen = append(seen, fmt.Sprintf("%s leads %d", r.name, leads))
		}
		return nil
	})
	return strings.Join(seen, ", ")
}

// viewed is the view for a step.
func (w *fleetWorld) viewed(t *attempt.T) fleetView {
	v, err := w.view(t.Context())
	t.Check(err)
	return v
}

// uninterrupted calls do, and fails if the Lease of one of the clusters has changed hands
// meanwhile.
func (w *fleetWorld) uninterrupted(t *attempt.T, members []*member, do func()) {
	before := w.viewed(t)
	do()
	after := w.viewed(t)
	for _, m := range members {
		t.Note(
			expect("the Lease of "+m.inFleet(), after.leases[m.lease()], before.leases[m.lease()]))
	}
}

func (w *fleetWorld) killReplica(t *attempt.T) string {
	v, killed := w.viewed(t), w.all[0]
	var orphans, others []*member
	for _, m := range w.clusters() {
		if v.leases[m.lease()].holder == killed.name {
			orphans = append(orphans, m)
		} else {
			others = append(others, m)
		}
	}
	begun, took := time.Now(), time.Duration(0)
	w.uninterrupted(t, others, func() {
		t.Check(killed.process.Load().Kill())
		for _, m := range orphans {
			w.addService(t, m, "api")
		}
		w.awaitServed(t, orphans...)
		took = time.Since(begun)
		w.awaitPlaced(t)
	})
	return fmt.Sprintf("its %d clusters are served again, each with one more Service, %.1f s after the "+
		"kill; the other %d were not interrupted", len(orphans), took.Seconds(),
		len(others))
}

func (w *fleetWorld) startKilled(t *attempt.T) string {
	before, started := w.viewed(t), w.all[0]
	w.start(t, started)
	// Until the replica leads, the others may not know it, and no cluster has to move.
	seen := w.awaitServed(t, w.clusters()...)
	w.awaitPlaced(t)
	after := w.viewed(t)
	for _, m := range w.clusters() {
		was, is := before.leases[m.lease()].holder, after.leases[m.lease()].holder
		if was != is && is != started.name {
			t.Errorf("%s moved from %s to %s", m.inFleet(), was, is)
		}
	}
	return seen + "; clusters moved to it only"
}

func (w *fleetWorld) joinClusters(t *attempt.T) string {
	before, seen := w.clusters(), ""
	w.uninterrupted(t, before, func() {
		for range joiningCount {
			w.addMember(t)
		}
		seen = w.awaitServed(t, w.clusters()...)
		w.awaitPlaced(t)
	})
	return seen + fmt.Sprintf("; the other %d were not interrupted", len(before))
}

// replaceToken revokes the token of a cluster and gives the fleet a new one. No cluster is
// interrupted, and the cluster with the new token serves a new Service.
func (w *fleetWorld) replaceToken(t *attempt.T) string {
	m := w.clusters()[1]
	w.uninterrupted(t, w.clusters(), func() {
		m.endpoint.Rotate()
		w.writeKubeconfig(t, m)
		w.addService(t, m, "with-the-new-token")
		w.awaitServed(t, w.clusters()...)
	})
	return fmt.Sprintf("%s serves a new Service; none of %d clusters was interrupted", m.inFleet(),
		len(w.clusters()))
}

// removeCluster removes a cluster from the fleet, which releases its Lease and ends its requests.
func (w *fleetWorld) removeCluster(t *attempt.T) string {
	w.mu.Lock()
	gone := w.members[0]
	w.members = w.members[1:]
	w.mu.Unlock()
	objects, err := dynamic.NewForConfig(w.controlPlane.RESTConfig())
	t.Check(err)
	clusters := objects.Resource(schema.GroupVersionResource{
		Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters",
	})
	w.uninterrupted(t, w.clusters(), func() {
		t.Check(clusters.Namespace(gone.project.team).Delete(t.Context(), gone.name,
			metav1.DeleteOptions{}))
		w.until(t, func() error {
			v, err := w.view(t.Context())
			return errors.Join(err,
				expect("the leader of "+gone.inFleet(), v.leases[gone.lease()].holder, ""),
				expect("the requests of "+gone.inFleet(), gone.endpoint.InFlight(), 0))
		})
	})
	t.Check(gone.close())
	return fmt.Sprintf("%s has no leader and no request; the other %d were not interrupted",
		gone.inFleet(), len(w.clusters()))
}

// showStatus reads the status like an operator.
func (w *fleetWorld) showStatus(t *attempt.T) string {
	w.awaitPlaced(t)
	return fmt.Sprintf("%d clusters, all leading and ready in the preferred replica",
		len(w.clusters()))
}

// lookBack checks the records of the clusters, of OpenStack and of the management cluster.
func (w *fleetWorld) lookBack(t *attempt.T) string {
	v := w.viewed(t)
	for _, m := range w.clusters() {
		turns, lease := m.turnsSoFar(), v.leases[m.lease()]
		if len(turns) == 0 {
			t.Fatalf("%s was not changed by a replica", m.inFleet())
		}
		// A replica that changes an object after another replica must have won the Lease in
		// between.
		if len(turns) > int(lease.transitions)+1 {
			t.Fatalf("%s was changed by %v in this order, but its Lease changed hands %d times",
				m.inFleet(), turns, lease.transitions)
		}
		for _, s := range v.services[m.name] {
			t.Check(expect("the number of load balancers of a Service of "+m.inFleet(),
				len(v.balancers["fxccm-service="+string(s.UID)]), 1))
		}
		for _, refused := range m.endpoint.Refused() {
			if !strings.HasSuffix(refused, "another token") {
				t.Fatalf("%s refused a request: %s", m.inFleet(), refused)
			}
		}
	}
	return fmt.Sprintf("%d requests to the management cluster under the rules of deploy/fleet, %d to "+
		"OpenStack; each cluster was changed by the holder of its Lease",
		w.requestsOf(t, fleetNamespace, fleetAccount), len(w.cloud.Calls()))
}

// endFleet stops the replicas. They release their Leases and withdraw their announcements.
func (w *fleetWorld) endFleet(t *attempt.T) string {
	t.Check(stopProcesses(w.all...))
	for name, lease := range w.viewed(t).leases {
		t.Check(expect("the holder of the Lease "+name, lease.holder, ""))
	}
	return "exit code 0; all Leases are released"
}
