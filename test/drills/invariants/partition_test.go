//go:build linux

package invariants_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// A leader that cannot reach the API server any more, but the cloud, has no source to tell
// it that another leads. It goes by the clock: its last call has ended before another may take the
// lease.
func TestCutOffLeader_StopsCallingTheCloudBeforeAnotherLeads(t *testing.T) {
	w := newWorld(t, shortLane)
	w.cloud.SetLatency(200 * time.Millisecond)
	wire := w.startWire(t, "replica-a")
	first := w.start(t, launch{name: "replica-a", lease: exactLease, kubeconfig: wire.kubeconfig})
	w.awaitLeader(t)
	second := w.start(t, launch{name: "replica-b", lease: exactLease})

	// The cloud is busy: load balancers are requested again and again, which takes no API server.
	busy := w.cloud.On(fake.EnsureLoadBalancer).
		Fail(api.NewRetryError("busy", 100*time.Millisecond))
	w.addWork(t, 5, 40)
	caller := fake.CallFilter{Caller: first.Caller(1), Method: fake.EnsureLoadBalancer}
	replica.Eventually(t, "the leader tries each load balancer for the third time", func() error {
		if n := len(w.cloud.Calls(caller.Matches)); n < 3*40 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})

	wire.set(t, netfault.BlackHole())
	cut := time.Now()
	replica.Eventually(t, "the other has the lease", func() error {
		if h := w.holder(t); h != second.Name {
			return fmt.Errorf("it names %q", h)
		}
		return nil
	})
	lease, err := w.lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// As the new holder's clock had it, before it asked for the lease.
	acquired := lease.Spec.AcquireTime.Time
	// Others may take the lease that long after they have seen a renewal, which is after it has
	// reached the API server.
	expires := w.lastRenewal(t, first).Add(exactLease.Duration)
	if acquired.Before(expires) {
		t.Errorf("the lease was taken at %s, before it expired at %s", acquired, expires)
	}
	var last fake.Call
	after := 0
	for _, call := range w.cloud.Calls(fake.CallFilter{Caller: first.Caller(1)}.Matches) {
		if !call.Finished || call.Ended.After(expires) {
			t.Errorf(
				"a call of the one that is cut off goes on when another may lead: %s of %s from %s to %s, the lease expired at %s",
				call.Method, call.Object, call.Started, call.Ended, expires)
		}
		if call.Ended.After(last.Ended) {
			last = call
		}
		if call.Started.After(cut) {
			after++
		}
	}
	if after < 20 {
		t.Errorf("the leader made only %d calls after it was cut off: that proves nothing", after)
	}
	t.Logf(
		"%d calls after the cut; the last began %s and ended %s after it; the lease expired %s after it, and was taken %s after it",
		after, last.Started.Sub(cut), last.Ended.Sub(cut), expires.Sub(cut), acquired.Sub(cut))
	first.AwaitEntry(t, 1, replica.Standby)

	busy()
	w.awaitConvergence(t)
	wire.set(t, netfault.Pass())
	w.addWork(t, 3, 3)
	w.awaitConvergence(t)
	w.wantOneTermAtATime(t)
	w.wantNothingMadeTwice(t)
	if !first.Running() || first.Term(t) != 1 {
		t.Errorf("the one that was cut off runs: %t, in term %d; want it to live and stand by",
			first.Running(), first.Term(t))
	}
}

// lastRenewal is when the last request of the replica that renewed the lease reached the API
// server.
func (w *world) lastRenewal(t *testing.T, r *replica.Replica) (at time.Time) {
	t.Helper()
	for _, record := range w.requests(t, by(r),
		controlplane.ByResource("coordination.k8s.io", "leases"),
		controlplane.ByVerb("create", "update")) {
		if record.Code < 300 && record.Time.After(at) {
			at = record.Time
		}
	}
	return at
}
