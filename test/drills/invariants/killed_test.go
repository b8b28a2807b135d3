//go:build linux

package invariants_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	kills       = 20
	replicasRun = 3
)

// Twenty leaders, one after another, are killed in the middle of their work. Three replicas run at
// any time.
func TestKilledLeaders_NeverTwoTermsAtOnceAndNothingIsLostOrMadeTwice(t *testing.T) {
	w := newWorld(t, longLane)
	w.cloud.SetLatency(150 * time.Millisecond)
	for range replicasRun {
		w.startNext(t)
	}
	for range kills {
		w.awaitLeader(t)
		w.addWork(t, 5, 5)
		_ = w.awaitBusyLeader(t).Kill()
		w.startNext(t)
	}
	w.awaitLeader(t)
	w.awaitConvergence(t)
	w.wantOneTermAtATime(t)
	w.wantNothingMadeTwice(t)
	// On a busy machine a leader may also lose its lease by itself.
	if terms := len(w.tenures(t)); terms < kills+1 {
		t.Errorf(
			"the lease was won %d times, want at least %d: once by each that was killed, and by the last", terms, kills+1)
	}
}

func (w *world) startNext(t *testing.T) *replica.Replica {
	t.Helper()
	return w.start(t,
		launch{name: fmt.Sprintf("replica-%d", len(w.all())), lease: replica.QuickLease()})
}

// awaitBusyLeader waits until the leader has a mutating call to the cloud in flight.
func (w *world) awaitBusyLeader(t *testing.T) *replica.Replica {
	t.Helper()
	var busy *replica.Replica
	idleSince := time.Now()
	replica.Eventually(t, "the leader changes something in the cloud", func() error {
		leader := w.awaitLeader(t)
		calls := w.cloud.Calls(
			fake.CallFilter{Caller: leader.Caller(leader.Term(t)), Mutating: true}.Matches)
		for _, call := range calls {
			if !call.Finished {
				busy = leader
				return nil
			}
		}
		if time.Since(idleSince) > 2*time.Second { // all work was done before a call was seen
			w.addWork(t, 0, 5)
			idleSince = time.Now()
		}
		return fmt.Errorf("of %d calls of %s none is in flight", len(calls), leader.Name)
	})
	return busy
}

// awaitMutatingCall waits until the replica has a mutating call to the cloud in flight.
func (w *world) awaitMutatingCall(t *testing.T, r *replica.Replica) {
	t.Helper()
	caller := r.Caller(r.Term(t))
	replica.Eventually(t, r.Name+" changes something in the cloud", func() error {
		calls := w.cloud.Calls(fake.CallFilter{Caller: caller, Mutating: true}.Matches)
		for _, call := range calls {
			if !call.Finished {
				return nil
			}
		}
		return fmt.Errorf("of %d calls none is in flight", len(calls))
	})
}
