package election

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func leaseLock(
	client *fake.Clientset, identity string, clock *clocktesting.FakePassiveClock,
) *watchedLock {
	leases := &provingLeases{LeasesGetter: client.CoordinationV1(), proof: &releaseProof{}}
	return &watchedLock{
		leases: leases, duration: 15 * time.Second,
		record: &leaseRecord{clock: clock, status: Status{Identity: identity}},
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "x"},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
	}
}

func TestRelease_ByTheHolder_StandbyTakesTheLeaseAtOnce(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	client := fake.NewClientset()
	a, b := leaseLock(client, "a", clock), leaseLock(client, "b", clock)
	stored := func() *coordinationv1.Lease {
		lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "x",
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	if err := a.Create(t.Context(), *by("a", 15, clock.Now())); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]bool{}
	for range 3 { // the lease goes back and forth
		digest := stored().Annotations[releaseDigestAnnotation]
		if _, _, err := b.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.release(t.Context()); err != nil {
			t.Fatal(err)
		}
		token := stored().Annotations[releaseTokenAnnotation]
		if digest == "" || digestOf(token) != digest || tokens[token] {
			t.Errorf("the lease was held with the digest %q and released with the token %q, which "+
				"must be new: %v", digest, token, tokens)
		}
		tokens[token] = true
		seen, _, err := b.Get(t.Context())
		if err != nil || seen.HolderIdentity != "" {
			t.Fatalf("the standby sees %+v: %v, want a free lease", seen, err)
		}
		if err := b.Update(t.Context(), *by(b.Identity(), 15, clock.Now())); err != nil {
			t.Fatalf("the standby cannot take the released lease: %v", err)
		}
		a, b = b, a
	}
}

// The API server limits all annotations of an object to 256 KiB.
func TestLease_LargeForeignAnnotations_AreRemovedAtTheNextRenewal(t *testing.T) {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"small": "x"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a")},
	}
	proof := &releaseProof{}
	proof.mark(lease)
	if lease.Annotations["small"] != "x" || lease.Annotations[releaseDigestAnnotation] == "" {
		t.Errorf("the annotations are %v", lease.Annotations)
	}
	lease.Annotations["large"] = strings.Repeat("a", 255<<10)
	proof.mark(lease)
	if len(lease.Annotations) != 1 || lease.Annotations[releaseDigestAnnotation] == "" {
		t.Errorf("%d annotations are left, want only the digest", len(lease.Annotations))
	}
}

func TestLease_LargeForeignMetadata_IsRemovedAtTheNextRenewal(t *testing.T) {
	large := strings.Repeat("a", 1<<20)
	for name, meta := range map[string]metav1.ObjectMeta{
		"label":      {Labels: map[string]string{"large": large}},
		"finalizers": {Finalizers: []string{large}},
		"owners":     {OwnerReferences: []metav1.OwnerReference{{Name: large}}},
	} {
		meta.Name, meta.Namespace, meta.UID, meta.ResourceVersion = "x", "kube-system", "u", "7"
		lease := &coordinationv1.Lease{
			ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a")},
		}
		(&releaseProof{}).mark(lease)
		if lease.Size() > 1000 || lease.Name != "x" || lease.Namespace != "kube-system" ||
			lease.UID != "u" || lease.ResourceVersion != "7" {
			t.Errorf("%s: the lease has %d bytes and %.300v", name, lease.Size(), lease.ObjectMeta)
		}
	}
}

func TestTransitions_OfALeaseAreAtTheLimit_WrapToZero(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	client := fake.NewClientset()
	a := leaseLock(client, "a", clock)
	record := *by("a", 15, clock.Now())
	record.LeaderTransitions = 1 << 31
	if err := a.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "x",
		metav1.GetOptions{})
	if err != nil || *lease.Spec.LeaseTransitions != 0 {
		t.Errorf("the lease has %d transitions: %v, want 0", *lease.Spec.LeaseTransitions, err)
	}
}

func TestElectionStatus_LeaseWasDeletedOrEdited_NamesTheHolderAndTheTime(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(begin)
	lease := &storedLease{identity: "standby", record: by("leader", 15, begin)}
	lock := &watchedLock{
		Interface: lease, duration: 15 * time.Second,
		record: &leaseRecord{clock: clock, status: Status{Identity: "standby"}},
	}
	status := func() Status {
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		return lock.record.snapshot()
	}
	if s := status(); s.WaitReason() != "" || s.WaitsFor != "leader" ||
		!s.WaitsUntil.Equal(begin.Add(15*time.Second)) {
		t.Errorf("the lease is held: %+v, %q", s, s.WaitReason())
	}
	lease.record = nil
	if s := status(); s.Leader != "" || !strings.Contains(s.WaitReason(), `"leader"`) ||
		!strings.Contains(s.WaitReason(), begin.Add(15*time.Second).UTC().Format(time.RFC3339)) {
		t.Errorf("the lease was deleted: %+v, %q", s, s.WaitReason())
	}
	lease.record = by(strings.Repeat("h", 1<<20), 86400, begin)
	if s := status(); len(s.Leader) > 300 || len(s.WaitsFor) > 300 ||
		s.WaitsUntil.After(begin.Add(30*time.Second)) {
		t.Errorf("a holder of 1 MiB: Leader has %d bytes, WaitsFor %d, until %s", len(s.Leader),
			len(s.WaitsFor), s.WaitsUntil)
	}
	clock.SetTime(begin.Add(time.Minute))
	if s := lock.record.snapshot(); s.WaitsFor != "" || s.WaitReason() != "" {
		t.Errorf("the time is over: %+v, %q", s, s.WaitReason())
	}
}

// FuzzLeaseState gives a standby, after the lease of a real leader, any two Leases that another
// client can write.
func FuzzLeaseState(f *testing.F) {
	for _, lease := range []string{
		`{}`, `{"spec":{}}`, `{"spec":{"holderIdentity":""}}`,
		`{"spec":{"holderIdentity":"leader","leaseDurationSeconds":2147483647}}`,
		`{"spec":{"holderIdentity":"ghost","leaseDurationSeconds":-1,"leaseTransitions":2147483647}}`,
		`{"metadata":{"annotations":{"fxccm.dev/release-token":"forged"}},"spec":{"holderIdentity":""}}`,
		`{"metadata":{"annotations":{"fxccm.dev/release-digest":"00"}},"spec":{"holderIdentity":"leader"}}`,
		`{"spec":{"holderIdentity":"standby","renewTime":"9999-12-31T23:59:59.999999Z"}}`,
	} {
		f.Add([]byte(lease), []byte(`{"spec":{"holderIdentity":""}}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		const own = 15 * time.Second
		begin := time.Unix(1_000_000, 0)
		clock := clocktesting.NewFakePassiveClock(begin)
		record := &leaseRecord{clock: clock, status: Status{Identity: "standby"}}
		leader := leaseState{*by("leader", 15, begin), "", digestOf("secret"), ""}
		record.observeState(leader, own, begin)
		for _, data := range [][]byte{first, second} {
			var lease coordinationv1.Lease
			if json.Unmarshal(data, &lease) != nil {
				return
			}
			clock.SetTime(clock.Now().Add(time.Second))
			if record.observeState(stateOf(&lease), own, clock.Now()) &&
				stateOf(&lease).releaseToken == "" {
				t.Error("a release without a token was accepted")
			}
			_ = record.snapshot().WaitReason()
			if until := record.snapshot().WaitsUntil; until.After(clock.Now().Add(2 * own)) {
				t.Errorf("the standby waits until %s because of %s", until, data)
			}
		}
		// The leader may lead for 15 s, whatever the others write.
		if live, ok := record.liveRecord(); !ok {
			t.Errorf("the lease is free while the leader may lead: %+v", live)
		}
		clock.SetTime(clock.Now().Add(2 * own))
		if live, ok := record.liveRecord(); ok {
			t.Errorf("the lease is not free after twice the lease duration: %+v", live)
		}
	})
}
