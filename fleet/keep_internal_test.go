package fleet

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// keeping is a replica that takes one cluster whose preferred replica announces itself, and does
// not campaign.
type keeping struct {
	*Fleet
	// terms receives for how long the replica has led, at the end of each term.
	terms chan time.Duration
}

const keptCluster = "cluster"

// newKeeping must be called in a bubble of synctest.
func newKeeping(t *testing.T, replicas []replica) *keeping {
	t.Helper()
	log := logr.Discard()
	k := &keeping{terms: make(chan time.Duration, 100)}
	var err error
	k.Fleet, err = New(Params{
		Identity: rank(keptCluster, replicas)[1], Source: Static(), Logger: &log,
		Management: &rest.Config{Host: "https://management.invalid"},
		Manager: func(c Cluster) (ccm.Params, error) {
			cfg := DefaultConfig()
			cfg.ClusterName, cfg.Controllers = c.Name, []string{"waits"}
			return ccm.Params{
				Config: cfg, Elector: k, Providers: []ccm.Provider{fake.New().CCMProvider()},
				Controllers: []ccm.Controller{{Name: "waits", New: newWaiting}},
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.begin(); err != nil {
		t.Fatal(err)
	}
	k.view.longest = 1_000_000 * time.Second // the test renews nothing
	var background sync.WaitGroup
	background.Go(k.work)
	for _, r := range replicas {
		k.announce(r, false)
	}
	k.settled = true
	k.update([]Cluster{{
		Name: keptCluster, RESTConfig: &rest.Config{Host: "https://cluster.invalid"},
	}})
	t.Cleanup(func() {
		if err := k.stopAll(context.Canceled); err != nil {
			t.Error(err)
		}
		k.queue.ShutDown()
		background.Wait()
		k.finish()
	})
	return k
}

func newWaiting(context.Context, *ccm.Term) (ccm.Runnable, error) {
	return ccm.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}), nil
}

// announce shows the fleet the announcement of a replica, or its end.
func (k *keeping) announce(r replica, ended bool) {
	k.observe(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        r.identity,
			Labels:      map[string]string{fleetLabel: k.params.Name, replicaLabel: "true"},
			Annotations: map[string]string{weightAnnotation: "1"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &r.identity, LeaseDurationSeconds: ptr.To[int32](1_000_000),
		},
	}, ended)
}

// Elect implements election.Elector. The Lease is free for each campaign.
func (k *keeping) Elect(
	ctx context.Context, lead func(context.Context, election.Grant) error,
) error {
	hold := func(holder string) {
		k.observe(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: k.leaseOf(keptCluster)},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](1_000_000),
			},
		}, false)
	}
	begun := time.Now()
	hold(k.self.identity)
	defer func() {
		k.terms <- time.Since(begun)
		hold("")
	}()
	return lead(ctx, election.Grant{})
}

// next returns how long the next terms last.
func (k *keeping) next(t *testing.T, terms int) (all []time.Duration) {
	t.Helper()
	for range terms {
		select {
		case lasted := <-k.terms:
			all = append(all, lasted)
		case <-time.After(24 * time.Hour):
			t.Fatalf("no term has ended for a day; the last ones lasted %v", all)
		}
	}
	return all
}

func TestKeepUntil_PreferredReplicaDoesNotLead_TheTimeDoublesUntilReplicasChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := []replica{{"a", 1}, {"b", 1}}
		k := newKeeping(t, replicas)
		const minute = time.Minute
		doubling := []time.Duration{
			15 * time.Second, 30 * time.Second, minute, 2 * minute, 4 * minute, 8 * minute,
			10 * minute, 10 * minute,
		}
		if got := k.next(t, len(doubling)); !slices.Equal(got, doubling) {
			t.Errorf("the cluster was kept for %v, want %v", got, doubling)
		}

		time.Sleep(rankDelay + minute)
		k.announce(replica{"another", 1}, false)
		// The replica that has come may be the one that can lead.
		if got := k.next(t, 2); got[0] != minute+settleTime || got[1] != keepAtLeast {
			t.Errorf("after another replica has come, it was kept for %v", got)
		}

		time.Sleep(rankDelay)
		for _, name := range rank(keptCluster, k.replicas) {
			if name != k.self.identity {
				k.announce(replica{name, 1}, true)
			}
		}
		time.Sleep(time.Hour)
		if len(k.terms) > 0 {
			t.Errorf("the only replica has kept it for %v", k.next(t, 1))
		}
	})
}
