package fleet

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

const manyClusters = 3000

func preferred(replicas []replica) map[string]string {
	by := map[string]string{}
	for i := range manyClusters {
		name := fmt.Sprintf("cluster-%d", i)
		by[name] = rank(name, replicas)[0]
	}
	return by
}

func count(by map[string]string) map[string]int {
	counts := map[string]int{}
	for _, r := range by {
		counts[r]++
	}
	return counts
}

func TestRank_Shares_AreInProportionToTheWeights(t *testing.T) {
	counts := count(preferred([]replica{{"a", 1}, {"b", 1}, {"c", 2}, {"spare", 0}}))
	for name, share := range map[string]float64{"a": 0.25, "b": 0.25, "c": 0.5, "spare": 0} {
		if got := float64(counts[name]) / manyClusters; math.Abs(got-share) > 0.03 {
			t.Errorf("replica %s has a share of %.3f, want %.2f", name, got, share)
		}
	}
}

func TestRank_ReplicaComesOrGoes_OnlyItsOwnClustersMove(t *testing.T) {
	three := []replica{{"a", 1}, {"b", 1}, {"c", 1}}
	before, after := preferred(three), preferred(append(slices.Clone(three), replica{"d", 1}))
	moved := 0
	for name, r := range after {
		if r == before[name] {
			continue
		}
		moved++
		if r != "d" {
			t.Errorf("%s moved from %s to %s when d came", name, before[name], r)
		}
	}
	if limit := manyClusters/4 + manyClusters/10; moved == 0 || moved > limit {
		t.Errorf("%d of %d clusters moved, want at most %d", moved, manyClusters, limit)
	}
}

// All replicas must agree, whatever their version: these are the orders of the first release.
func TestRank_Order_IsThatOfAllVersions(t *testing.T) {
	replicas := []replica{{"a", 1}, {"b", 3}, {"c", 1}, {"spare", 0}}
	for name, want := range map[string][]string{
		"cluster-1": {"b", "c", "a", "spare"},
		"cluster-2": {"b", "a", "c", "spare"},
	} {
		if got := rank(name, replicas); !slices.Equal(got, want) {
			t.Errorf("%s prefers %q, want %q", name, got, want)
		}
	}
}

func TestRank_NoReplicas_IsEmpty(t *testing.T) {
	if got := rank("cluster", nil); len(got) != 0 {
		t.Errorf("rank is %q", got)
	}
}

// A replica leaves a free Lease to the one that the cluster prefers, for as long as that one needs
// to see that the Lease is free.
func TestCampaignIn_AnotherReplicaIsPreferred_ItGetsTheTime(t *testing.T) {
	const name = "c"
	replicas := []replica{{"a", 1}, {"b", 1}}
	second := rank(name, replicas)[1]
	for situation, arrange := range map[string]func(*Fleet, *coordinationv1.Lease){
		"the cluster has joined, and never had a Lease": func(f *Fleet, _ *coordinationv1.Lease) {
			f.update([]Cluster{{Name: name}})
		},
		"this replica has released the Lease, but not seen it": func(
			f *Fleet, lease *coordinationv1.Lease,
		) {
			lease.Spec.HolderIdentity = &second
			f.view.observe(lease, false, false)
		},
		"this replica has released the Lease, and seen it": func(
			f *Fleet, lease *coordinationv1.Lease,
		) {
			lease.Spec.HolderIdentity = ptr.To("")
			f.view.now = time.Now
			f.view.observe(lease, false, false)
		},
	} {
		t.Run(situation, func(t *testing.T) {
			lastRenewal := time.Now().Add(-rankDelay)
			f := &Fleet{
				params: Params{Name: "f"}, self: replica{second, 1}, replicas: replicas,
				view:  newLeaseView(func() time.Time { return lastRenewal }),
				queue: workqueue.NewTypedRateLimitingQueue(newKeep()),
			}
			defer f.queue.ShutDown()
			arrange(f, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: f.leaseOf(name)},
				Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](15)},
			})
			f.view.now = time.Now
			if wait := f.campaignIn(name); wait < rankDelay/2 {
				t.Errorf("it campaigns in %s, want about %s", wait, rankDelay)
			}
		})
	}
}

// Any client that may write Leases in the fleet's namespace can forge announcements.
func TestCampaignIn_ManyForgedReplicasArePreferred_TheWaitIsLimited(t *testing.T) {
	f := &Fleet{
		params: Params{Name: "f"}, self: replica{"me", 1}, view: newLeaseView(time.Now),
		clusters: map[string]Cluster{"c": {Name: "c"}}, replicas: []replica{{"me", 1}},
	}
	for i := range 1000 {
		f.replicas = append(f.replicas, replica{fmt.Sprint("forged-", i), maxWeight})
	}
	f.rankedSince = time.Now()
	if wait := f.campaignIn("c"); wait < 0 || wait > maxRanks*rankDelay {
		t.Errorf("it campaigns in %s, want at most %s", wait, maxRanks*rankDelay)
	}
}
