//go:build linux

package invariants_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	manyNodes    = 500
	manyServices = 200

	// transit is how much later than the closing of the fence a request may be stamped that the
	// fence had let pass before: it was on its way to a process that had to be scheduled to read
	// its clock.
	transit = time.Second
	// longTransit is the same where the machine is so busy that requests queue up on their way.
	// They are cancelled there: what comes later than transit must not have succeeded.
	longTransit = 3 * time.Second
)

// Another holder is written into the lease while every worker waits for the cloud and hundreds of
// objects are queued behind them. No request is being sent then, so the count begins before the
// loss and needs no allowance: whatever is sent at all was sent after the fence had closed.
func TestLeaseTaken_NothingQueuedOrInFlightActsAnyMore(t *testing.T) {
	w := newWorld(t, shortLane)
	r := w.start(t, launch{name: "replica-a", lease: steadyLease})
	w.awaitLeader(t)
	caller := r.Caller(1)
	release := w.cloud.On().By(caller).Hang()
	w.addWork(t, manyNodes, manyServices)
	busy := replica.Steadily(t, "all workers wait for the cloud", 500*time.Millisecond,
		func() (activity, error) {
			seen, err := w.activity(t, r, caller)
			if err == nil && seen.inFlight < 16+32 {
				err = fmt.Errorf("%d calls are in flight", seen.inFlight)
			}
			return seen, err
		})
	left, err := w.backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left.nodes != manyNodes || left.services != manyServices {
		t.Fatalf("%d nodes and %d Services are to be done, want all", left.nodes, left.services)
	}

	before := time.Now()
	leave := w.foreignLeader(t, "foreigner")
	ended := r.AwaitEntry(t, 1, replica.TermEnds)
	r.AwaitEntry(t, 1, replica.TermDrained)
	r.AwaitEntry(t, 1, replica.Standby)
	t.Logf("%d calls were in flight; the term ended %s after another had taken the lease: %s",
		busy.inFlight, ended.At.Sub(before), ended.Reason)
	// The next renewal shows it: that it is not waited until the renew deadline is over is what the
	// reason tells.
	if !strings.Contains(ended.Reason, `"foreigner" has taken it`) {
		t.Errorf("the term ended because of %q, want that the foreigner has taken the lease",
			ended.Reason)
	}
	// Long enough for a queue to be drained, and for a call to be tried again.
	replica.Steadily(t, "no process acts", 3*time.Second,
		func() (activity, error) { return w.activity(t, r, caller) })
	w.wantSilence(t, r, before, time.Time{})

	release()
	leave()
	w.wantBackInOffice(t, r, before)
}

// wantBackInOffice waits until the same process leads again and has done all work, and holds the
// time between the terms against the record.
func (w *world) wantBackInOffice(t *testing.T, r *replica.Replica, lost time.Time) {
	t.Helper()
	again := r.AwaitEntry(t, 2, replica.TermBegins)
	w.wantSilence(t, r, lost, again.At)
	w.awaitConvergence(t)
	if !r.Running() {
		t.Errorf("the process has ended with code %d", r.ExitCode())
	}
	w.wantNothingMadeTwice(t)
}

// The API server refuses to renew the lease while requests and calls go back and forth. The cloud
// is so slow that on a fast machine there is work left when the term ends, and a few calls hang, so
// that on a slow one, too, calls are in flight then.
//
// The closing time is the fence's own; see transit for what the count has to leave out.
func TestRenewalsFail_RequestsEndWithTheTerm(t *testing.T) {
	w := newWorld(t, shortLane)
	w.cloud.SetLatency(time.Second)
	proxy := w.startAPIProxy(t, "replica-a")
	r := w.start(t, launch{name: "replica-a", lease: steadyLease, kubeconfig: proxy.kubeconfig})
	w.awaitLeader(t)

	proxy.set(func(req *http.Request) verdict {
		if strings.Contains(req.URL.Path, "/leases/") {
			return verdict{status: http.StatusInternalServerError}
		}
		return verdict{}
	})
	release := w.cloud.On().By(r.Caller(1)).Times(4).Hang()
	defer release()
	w.addWork(t, manyNodes, manyServices)
	ended := r.AwaitEntry(t, 1, replica.TermEnds)
	left, err := w.backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inFlight := 0
	for _, call := range w.cloud.Calls(fake.CallFilter{Caller: r.Caller(1)}.Matches) {
		if call.Started.Before(ended.Closed) && (!call.Finished || call.Err != "") {
			inFlight++
		}
	}
	t.Logf("the term ended with %d calls in flight, %d nodes and %d Services to be done: %s",
		inFlight, left.nodes, left.services, ended.Reason)
	if inFlight == 0 || left.nodes+left.services < 100 {
		t.Errorf("want the term to end in the middle of its work")
	}
	r.AwaitEntry(t, 1, replica.Standby)
	replica.Steadily(t, "no process acts", longTransit,
		func() (activity, error) { return w.activity(t, r, r.Caller(1)) })
	w.wantNothingDone(t, r, ended.Closed.Add(transit), time.Time{})
	w.wantSilence(t, r, ended.Closed.Add(longTransit), time.Time{})

	w.cloud.SetLatency(100 * time.Millisecond)
	proxy.set(nil)
	w.wantBackInOffice(t, r, ended.Closed.Add(longTransit))
}
