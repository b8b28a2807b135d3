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
)

// Another holder is written into the lease while every worker waits for the cloud and hundreds of
// objects are queued behind them. No request is being sent then, so the count begins before the
// loss and needs no allowance: each counted request was sent after the fence had closed.
func TestLeaseTaken_QueuedAndInFlightWork_MakesNoCalls(t *testing.T) {
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
	// The next renewal shows the loss. The reason proves that the process did not wait for the
	// renew deadline.
	if !strings.Contains(ended.Reason, `"foreigner" has taken it`) {
		t.Errorf("the term ended because of %q, want that the foreigner has taken the lease",
			ended.Reason)
	}
	// It is long enough to drain a queue, and to retry a call.
	replica.Steadily(t, "no process acts", 3*time.Second,
		func() (activity, error) { return w.activity(t, r, caller) })
	w.wantSilence(t, r, before, time.Time{})

	release()
	leave()
	w.wantBackInOffice(t, r, before)
}

// wantBackInOffice waits until the same process leads again and has done all work, and compares the
// time between the terms with the record.
func (w *world) wantBackInOffice(t *testing.T, r *replica.Replica, lost time.Time) {
	t.Helper()
	again := r.AwaitEntry(t, 2, replica.TermBegins)
	w.wantSilence(t, r, lost, again.At)
	w.awaitConvergence(t)
	if r.HasExited() {
		t.Errorf("the process has ended with code %d", r.ExitCode())
	}
	w.wantNothingMadeTwice(t)
}

// The API server refuses to renew the lease while every worker waits for it, and hundreds of
// objects are queued behind them. No request is being sent then, so here, too, the count begins
// before the loss: on a busy machine, a request that the fence admits in time may arrive any time
// later.
func TestRenewalsFail_RequestsEndWithTheTerm(t *testing.T) {
	w := newWorld(t, shortLane)
	proxy := w.startAPIProxy(t, "replica-a")
	r := w.start(t, launch{name: "replica-a", lease: steadyLease, kubeconfig: proxy.kubeconfig})
	w.awaitLeader(t)
	// A node has a route before its first request to the API server.
	release := w.cloud.On(fake.CreateRoute).By(r.Caller(1)).Hang()
	defer release()
	proxy.set(func(req *http.Request) verdict { return verdict{hold: changesObject(req)} })
	w.addWork(t, manyNodes, manyServices)
	busy := replica.Steadily(t, "all workers wait for the API server", time.Second,
		func() (heldRequests, error) {
			held := proxy.held()
			if held.waiting < 16+32 {
				return held, fmt.Errorf("%d requests wait", held.waiting)
			}
			return held, nil
		})

	before := time.Now()
	proxy.set(func(req *http.Request) verdict {
		if strings.Contains(req.URL.Path, "/leases/") {
			return verdict{status: http.StatusInternalServerError}
		}
		return verdict{hold: changesObject(req)}
	})
	ended := r.AwaitEntry(t, 1, replica.TermEnds)
	r.AwaitEntry(t, 1, replica.TermDrained)
	r.AwaitEntry(t, 1, replica.Standby)
	left, err := w.backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests were in flight when the term ended: %s", busy.waiting, ended.Reason)
	if left.nodes != manyNodes || left.services != manyServices {
		t.Errorf("%d nodes and %d Services are to be done, want all", left.nodes, left.services)
	}
	replica.Steadily(t, "no process acts, and no request waits", 3*time.Second,
		func() (heldRequests, error) {
			held := proxy.held()
			if held.waiting > 0 {
				return held, fmt.Errorf("%d requests wait", held.waiting)
			}
			return held, nil
		})
	if held := proxy.held(); held.arrived != busy.arrived {
		t.Errorf("%d requests were sent after leadership was lost", held.arrived-busy.arrived)
	}
	w.wantSilence(t, r, before, time.Time{})

	release()
	proxy.set(nil)
	w.wantBackInOffice(t, r, before)
}

// changesObject selects the requests of ofTerm at a proxy.
func changesObject(req *http.Request) bool {
	if req.Method == http.MethodGet {
		return false
	}
	for _, resource := range []string{
		"/events", "/leases", "/tokenreviews", "/subjectaccessreviews",
	} {
		if strings.Contains(req.URL.Path, resource) {
			return false
		}
	}
	return true
}
