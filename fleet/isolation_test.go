package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
)

// awaitServedBy waits until a cluster is served by a replica.
func (w *world) awaitServedBy(name, replica string) {
	w.t.Helper()
	waittest.Until(w.t, name+" is served by "+replica, func() error {
		if by := w.served()[name]; by != replica {
			return fmt.Errorf("it is served by %q", by)
		}
		return nil
	})
}

func TestFleet_ReplicaIsCutOffFromOneCluster_AnotherServesItAndTheRestStays(t *testing.T) {
	t.Parallel()
	const clusters = 3
	w, h := newWorld(t, clusters), newHostile(t)
	change := withNodes(w, h)
	proxy, err := netfault.ListenHTTP(h.Config.Handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	a := w.start("a", change, func(p *fleet.Params) {
		p.Source = fleet.SourceFunc(func(ctx context.Context, update func([]fleet.Cluster)) error {
			return w.Run(ctx, func(all []fleet.Cluster) {
				for i := range all {
					if all[i].Name == "hostile" {
						all[i].RESTConfig = proxy.RESTConfig()
					}
				}
				update(all)
			})
		})
	})
	w.waitServed(clusters+1, a)
	b := w.start("b", change, func(p *fleet.Params) { p.Weight = 0 }) // a is preferred
	waittest.Until(t, "the second replica waits", func() error {
		if got := len(b.Status().Replicas); got != 2 {
			return fmt.Errorf("it sees %d replicas", got)
		}
		return nil
	})

	if err := proxy.Set(netfault.Reset()); err != nil {
		t.Fatal(err)
	}
	w.awaitServedBy("hostile", "b")
	if c := statusOf(a, "hostile"); c.State != fleet.StateFailed ||
		!strings.Contains(c.Reason, "the API server has not answered since") {
		t.Errorf("the replica that is cut off says %+v", c)
	}
	for _, c := range w.clusters[:clusters] {
		if by := w.served()[c.Name]; by != "a" {
			t.Errorf("%s is served by %q", c.Name, by)
		}
	}

	if err := proxy.Set(netfault.Pass()); err != nil {
		t.Fatal(err)
	}
	w.waitServed(clusters+1, a, b)
	w.verifyOthers()
}

// hangingCloud does not end with its term.
type hangingCloud struct {
	cloudprovider.Interface
	end <-chan struct{}
}

func (c hangingCloud) Close() error {
	<-c.end
	return nil
}

func TestFleet_ProviderHangsWhenItsReplicaStops_OthersAreHandedOverAndTheErrorNamesIt(
	t *testing.T,
) {
	t.Parallel()
	const clusters, hanging = 8, "cluster-3"
	w := newWorld(t, clusters)
	end := make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	a := w.start("a", func(p *fleet.Params) {
		made := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			params, err := made(c)
			params.Config.DrainTimeout.Duration = 30 * time.Second // the others need less
			if c.Name == hanging {
				open := params.Providers[0].New
				params.Providers[0].New = func(
					ctx context.Context, env ccm.ProviderEnv,
				) (cloudprovider.Interface, error) {
					cloud, err := open(ctx, env)
					return hangingCloud{cloud, end}, err
				}
			}
			return params, err
		}
	})
	t.Cleanup(release) // before the replica's own clean-up
	w.waitServed(clusters, a)
	w.start("b", func(p *fleet.Params) { p.Weight = 0 })

	a.stop()
	for _, c := range w.clusters {
		if c.Name != hanging {
			w.awaitServedBy(c.Name, "b")
		}
	}
	if len(a.done) > 0 {
		t.Error("the other clusters were handed over after the drain timeout")
	}
	if c := statusOf(a, hanging); c.State != status.Draining {
		t.Errorf("the cluster that hangs is %+v", c)
	}
	waittest.Until(t, "the replica stops", func() error {
		if len(a.done) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	err := <-a.done
	timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](err)
	if !ok || len(timedOut.Running) != 1 || strings.Count(err.Error(), "cluster ") != 1 ||
		!strings.Contains(err.Error(), "cluster "+hanging+":") {
		t.Errorf("the error of the replica that stops: %v", err)
	}
	release()
	a.done <- nil
	w.awaitServedBy(hanging, "b")
	w.verify()
}
