package fleet

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func TestAnnouncer_ReplicaIsDeadForLong_ItsAnnouncementIsDeletedUnlessItChanges(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	view := newLeaseView(func() time.Time { return now })
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("fxccm-system")
	see := func(name, version string, duration *int32) {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: "uid", ResourceVersion: version,
				Labels: map[string]string{replicaLabel: "true"},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &name, LeaseDurationSeconds: duration,
			},
		}
		if err := client.Tracker().Add(lease); err != nil && version == "1" {
			t.Fatal(err)
		}
		view.observe(lease, true, false)
	}
	see("dead", "1", ptr.To[int32](12))
	see("without-duration", "1", nil)
	see("live", "1", ptr.To[int32](12))
	deleted := func() []string {
		t.Helper()
		client.ClearActions()
		if err := deleteDead(t.Context(), leases, view.dead()); err != nil {
			t.Error(err)
		}
		var names []string
		for _, action := range client.Actions() {
			deletion := action.(kubetesting.DeleteActionImpl)
			names = append(names, deletion.Name)
			if p := deletion.DeleteOptions.Preconditions; p == nil || p.UID == nil ||
				*p.UID != "uid" || p.ResourceVersion == nil || *p.ResourceVersion != "1" {
				t.Errorf("%s is deleted with the preconditions %v", deletion.Name, p)
			}
		}
		slices.Sort(names)
		return names
	}
	now = now.Add(forgetReplica - time.Second)
	if names := deleted(); len(names) != 0 {
		t.Errorf("%v are deleted too early", names)
	}
	see("live", "2", ptr.To[int32](12))
	now = now.Add(time.Second)
	if names := deleted(); !slices.Equal(names, []string{"without-duration"}) {
		t.Errorf("%v are deleted when no announcement has expired for long", names)
	}
	now = now.Add(12 * time.Second)
	if names := deleted(); !slices.Equal(names, []string{"dead", "without-duration"}) {
		t.Errorf("%v are deleted, want the dead ones", names)
	}
}
