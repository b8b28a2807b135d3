package fleet

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			}, false)
			view.observe(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Name: "f-replica-a", Labels: map[string]string{replicaLabel: "true"},
			}, Spec: spec}, false)
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
