package fleet_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/waittest"
)

// inCluster makes the Leases be in the clusters, each with a name of its own, because the clusters
// are one API server.
func (w *world) inCluster(p *fleet.Params) {
	p.Lock = fleet.LockWorkload
	made := p.Manager
	p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
		params, err := made(c)
		w.nameLease(&params, c.Name)
		return params, err
	}
}

func (w *world) nameLease(params *ccm.Params, name string) {
	params.Config.LeaderElection.ResourceNamespace = w.namespace
	params.Config.LeaderElection.ResourceName = name
}

func newWorldOfOneServer(t *testing.T, clusters int) *world {
	t.Helper()
	w := newWorld(t, clusters)
	for i := range w.clusters {
		w.clusters[i].RESTConfig = cluster.RESTConfig()
	}
	return w
}

func TestLockWorkload_ReplicasComeAndGo_EachClusterIsServedOnce(t *testing.T) {
	t.Parallel()
	const clusters = 12
	w := newWorldOfOneServer(t, clusters)
	a := w.start("a", w.inCluster)
	w.waitServed(clusters, a)
	b := w.start("b", w.inCluster)
	w.waitServed(clusters, a, b)
	a.stop()
	if err := <-a.done; err != nil {
		t.Errorf("the replica that goes: %v", err)
	}
	a.done <- nil
	w.waitServed(clusters, b)
	w.verify()
}

// A cluster moves from a cloud controller manager of its own into a fleet, and back.
func TestLockWorkload_ClusterHasItsOwnCCM_OneOfThemActs(t *testing.T) {
	t.Parallel()
	w := newWorldOfOneServer(t, 1)
	name := w.clusters[0].Name
	own := func() (stop func()) {
		params, err := w.manager("own")(w.clusters[0])
		if err != nil {
			t.Fatal(err)
		}
		w.nameLease(&params, name)
		params.RESTConfig = cluster.RESTConfig()
		manager, err := ccm.New(params)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- manager.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the cluster's own Manager: %v", err)
			}
		}
	}
	stopOwn := own()
	w.awaitServedBy(name, "own")
	r := w.start("fleet", w.inCluster)
	waittest.Until(t, "the fleet waits for the cluster's own Manager", func() error {
		if c := statusOf(r, name); c.State != status.Standby || c.Leader == "" ||
			c.Leader == "fleet" {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	stopOwn()
	w.awaitServedBy(name, "fleet")
	stopOwn = own()
	r.stop()
	w.awaitServedBy(name, "own")
	stopOwn()
	w.verify()
}
