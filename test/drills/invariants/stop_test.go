//go:build linux

package invariants_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// A leader that is stopped in the middle of its work finishes its calls, releases the lease with no
// call in flight, and the next replica leads.
func TestGracefulStop_HandsOverWithoutCallsInFlight(t *testing.T) {
	w := newWorld(t, shortLane)
	w.cloud.SetLatency(300 * time.Millisecond)
	first := w.start(t, launch{name: "replica-a", lease: usualLease})
	w.awaitLeader(t)
	second := w.start(t, launch{name: "replica-b", lease: usualLease})
	w.addWork(t, 100, 100)
	w.awaitMutatingCall(t, first)

	asked := time.Now()
	first.Signal(t, syscall.SIGTERM)
	if code := first.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	w.awaitLeader(t, first)

	release, acquire := w.handOver(t, first, second)
	t.Logf("the lease was released %s after the signal, and taken %s later",
		release.Time.Sub(asked), acquire.Time.Sub(release.Done))
	finished := 0
	for _, call := range w.cloud.Calls(fake.CallFilter{Caller: first.Caller(1)}.Matches) {
		if !call.Finished || call.Ended.After(release.Time) {
			t.Errorf(
				"in flight when the lease was released: %s of %s, from %s to %s, released at %s",
				call.Method, call.Object, call.Started, call.Ended, release.Time)
		}
		if call.Started.Before(asked) && call.Ended.After(asked) && call.Err == "" {
			finished++
		}
	}
	if finished == 0 {
		t.Error("no call in flight at the signal has finished")
	}
	for _, record := range w.requests(t, by(first), ofTerm) {
		if record.Done.After(release.Time) {
			t.Errorf("a request at or after the release of the lease at %s: %s", release.Time,
				record)
		}
	}
	w.awaitConvergence(t)
	w.wantOneTermAtATime(t)
	w.wantNothingMadeTwice(t)
}

// handOver finds the last request of one replica for the lease, which released it, and the first
// request of the next replica that got it.
func (w *world) handOver(
	t *testing.T, from, to *replica.Replica,
) (release, acquire controlplane.AuditRecord) {
	t.Helper()
	for _, record := range w.requests(t, controlplane.ByResource("coordination.k8s.io", "leases"),
		controlplane.ByVerb("update"), controlplane.ByCode(http.StatusOK)) {
		switch name, _, _ := strings.Cut(record.UserAgent, "/"); {
		case name == from.Name:
			release = record
		case name == to.Name && acquire.ID == "":
			acquire = record
		}
	}
	if release.ID == "" || acquire.ID == "" || !acquire.Time.After(release.Time) {
		t.Fatalf("want a release and then a take-over of the lease, got %s and %s", release,
			acquire)
	}
	return release, acquire
}
