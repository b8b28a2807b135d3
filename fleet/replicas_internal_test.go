package fleet

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// A Lease counts from the moment at which this process saw it change. The times in it, which come
// from another clock, change nothing.
func TestLeaseView_ClocksOfOthersAreWrong_LeasesExpireByThisOne(t *testing.T) {
	for name, skew := range map[string]time.Duration{
		"right": 0, "an hour ahead": time.Hour, "an hour behind": -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			view := newLeaseView(func() time.Time { return now })
			spec := coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](15),
				RenewTime: ptr.To(metav1.NewMicroTime(now.Add(skew))),
			}
			view.observe(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "f.c"}, Spec: spec,
			}, false, false)
			view.observe(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Name: "f-replica-a", Labels: map[string]string{replicaLabel: "true"},
			}, Spec: spec}, true, false)
			for after, valid := range map[time.Duration]bool{
				15*time.Second - 1: true, 15 * time.Second: false,
			} {
				now = time.Unix(1_000_000, 0).Add(after)
				holder, _, _ := view.cluster("f.c")
				live, _ := view.live()
				if (holder == "a") != valid || (len(live) == 1) != valid {
					t.Errorf("after %s the holder is %q, and live are %v", after, holder, live)
				}
			}
		})
	}
}

func TestLeaseView_LeaseClaimsDecades_CountsForTheLongestDuration(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	view := newLeaseView(func() time.Time { return now })
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](1<<31 - 1),
	}
	view.observe(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "f.c"}, Spec: spec,
	}, false, false)
	view.observe(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "f-replica-a", Labels: map[string]string{replicaLabel: "true"},
	}, Spec: spec}, true, false)
	now = now.Add(2 * announceDuration)
	holder, _, _ := view.cluster("f.c")
	if live, _ := view.live(); holder != "" || len(live) > 0 {
		t.Errorf("after the longest duration the holder is %q, and live are %v", holder, live)
	}
}

// A client that writes Leases can announce replicas that do not exist.
func TestLeaseView_AnyWeight_CountsWithinTheLimits(t *testing.T) {
	for weight, want := range map[string]int{
		"": 0, "x": 0, "-1": 0, "0": 0, "7": 7, "100": 100, "101": 100,
		"9223372036854775807": 100, "99999999999999999999": 100, "-99999999999999999999": 0,
	} {
		view := newLeaseView(time.Now)
		view.observe(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: "f-replica-a", Labels: map[string]string{replicaLabel: "true"},
				Annotations: map[string]string{weightAnnotation: weight},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](12),
			},
		}, true, false)
		if live, _ := view.live(); len(live) != 1 || live[0].weight != want {
			t.Errorf("the weight %q counts as %v, want %d", weight, live, want)
		}
	}
}

// Any client that may write the Lease of a cluster can add the label of an announcement.
func TestFleet_LeaseOfAClusterHasTheLabelOfAReplica_ItStaysTheClusters(t *testing.T) {
	f := &Fleet{
		params: Params{Name: "f"}, view: newLeaseView(time.Now),
		queue: workqueue.NewTypedRateLimitingQueue(newKeep()),
	}
	defer f.queue.ShutDown()
	name := f.leaseOf("c")
	f.observe(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{replicaLabel: "true", fleetLabel: "f"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](12),
			RenewTime: ptr.To(metav1.NowMicro()),
		},
	}, false)
	if live, _ := f.view.live(); len(live) > 0 {
		t.Errorf("the replicas are %v, want none", live)
	}
	if holder, _, _ := f.view.cluster(name); holder != "a" {
		t.Errorf("the holder of the cluster is %q", holder)
	}
}

func TestStatus_HolderIsLongAndUnprintable_IsShortened(t *testing.T) {
	forged := "\x1b[2J" + strings.Repeat("x", 1<<20)
	f := &Fleet{
		params: Params{Name: "f"}, view: newLeaseView(time.Now),
		clusters: map[string]Cluster{"c": {Name: "c"}},
		replicas: []replica{{identity: forged, weight: 1}},
		queue:    workqueue.NewTypedRateLimitingQueue(newKeep()),
	}
	defer f.queue.ShutDown()
	f.observe(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: f.leaseOf("c")},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &forged, LeaseDurationSeconds: ptr.To[int32](12),
			RenewTime: ptr.To(metav1.NowMicro()),
		},
	}, false)
	status := f.Status()
	if len(status.Clusters) != 1 || len(status.Replicas) != 1 {
		t.Fatalf("the status has %d clusters and %d replicas", len(status.Clusters),
			len(status.Replicas))
	}
	for what, text := range map[string]string{
		"leader": status.Clusters[0].Leader, "preferred": status.Clusters[0].Preferred,
		"replica": status.Replicas[0].Identity,
	} {
		if text == "" || len(text) > 1000 || strings.Contains(text, "\x1b") {
			t.Errorf("the %s has %d bytes: %.100q", what, len(text), text)
		}
	}
}

// The API server limits all annotations of an object to 256 KiB.
func TestAnnouncer_OthersFillTheMetadata_NothingOfItStays(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("fleet")
	a := &announcer{leases: leases, name: "f-replica-a", fleet: "f"}
	if err := a.announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease, err := leases.Get(t.Context(), a.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Annotations["foreign"] = strings.Repeat("a", 255<<10)
	lease.Finalizers = []string{"example.com/foreign"}
	lease.OwnerReferences = []metav1.OwnerReference{{Name: "foreign"}}
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease, err = leases.Get(t.Context(), a.name, metav1.GetOptions{})
	if err != nil || len(lease.Annotations) != 1 || len(lease.Finalizers) > 0 ||
		len(lease.OwnerReferences) > 0 {
		t.Errorf("%d annotations, finalizers %v, owners %v: %v", len(lease.Annotations),
			lease.Finalizers, lease.OwnerReferences, err)
	}
}
