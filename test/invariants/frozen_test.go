//go:build linux

package invariants_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

const (
	freezes   = 10
	frozenFor = time.Minute
	// workers of each controller are fewer than the work of a batch, so that some of it is in flight and some in the queue.
	workers = 6
	batch   = 16
)

// Ten leaders one after another are frozen for a minute each, while the next has taken over. What each has in flight then succeeds in the
// cloud, so when it wakes all of its workers have an answer at once, and want to write it down; more work is in its queues. All that keeps
// them from it is the fence, by the clock: nothing has told the process yet that its time is over.
//
// A leader is frozen when all of its workers wait for the cloud, since there is one thing that no fence in a process can do: keep back a
// request that it has let pass, and that the freeze has caught on its way to the socket. It is sent when the process wakes.
func TestFrozenLeader_ChangesNothingWhenItWakes(t *testing.T) {
	w := newWorld(t, longLane)
	for i := range freezes + 1 {
		w.start(t, launch{name: fmt.Sprintf("replica-%d", i), lease: quickLease, args: []string{
			fmt.Sprintf("--concurrent-service-syncs=%d", workers), fmt.Sprintf("--concurrent-node-syncs=%d", workers),
		}})
	}
	var frozen []*frozenReplica
	for range freezes {
		leader := w.awaitLeader(t, replicasOf(frozen)...)
		frozen = append(frozen, w.freezeAtWork(t, leader))
	}
	last := w.awaitLeader(t, replicasOf(frozen)...)
	for _, f := range frozen {
		f.thaw(t)
		f.awaitEntry(t, 1, standby)
	}
	w.awaitConvergence(t)
	for _, f := range frozen {
		w.wantSilence(t, f.replica, f.since, time.Time{})
		if got := f.term(t); got != 1 || !f.running() {
			t.Errorf("%s is in its term %d and runs: %t; want it to live and stand by after its first", f.name, got, f.running())
		}
	}

	// They are as good as new: one of them leads when the last has gone.
	last.signal(t, syscall.SIGTERM)
	if code := last.wait(t); code != 0 {
		t.Errorf("%s ended with code %d", last.name, code)
	}
	w.addWork(t, 4, 4)
	if heir := w.awaitLeader(t, last); heir.term(t) != 2 {
		t.Errorf("%s leads in its term %d, want one that was frozen in its first", heir.name, heir.term(t))
	}
	w.awaitConvergence(t)
	w.wantOneTermAtATime(t)
	w.wantNothingMadeTwice(t)
}

type frozenReplica struct {
	*replica
	since time.Time
}

func replicasOf(frozen []*frozenReplica) (all []*replica) {
	for _, f := range frozen {
		all = append(all, f.replica)
	}
	return all
}

// freezeAtWork gives the leader more work than it has workers, and freezes it when all of them wait for the cloud, which answers while
// the process stands still.
func (w *world) freezeAtWork(t *testing.T, leader *replica) *frozenReplica {
	t.Helper()
	caller := leader.caller(leader.term(t))
	release := w.inject(t, fake.Fault{Caller: caller, Hang: true})
	w.addWork(t, batch, batch)
	busy := steadily(t, "all workers of "+leader.name+" wait for the cloud", 400*time.Millisecond, func() (activity, error) {
		seen, err := w.activity(t, leader, caller)
		if err == nil && seen.inFlight < 2*workers {
			err = fmt.Errorf("%d calls are in flight", seen.inFlight)
		}
		return seen, err
	})
	leader.freeze(t)
	f := &frozenReplica{replica: leader, since: time.Now()}
	left, err := w.backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left.nodes+left.services <= busy.inFlight {
		t.Errorf("%s was frozen with %d calls in flight and nothing in its queues", leader.name, busy.inFlight)
	}
	release()
	eventually(t, "the cloud has answered what "+leader.name+" had in flight", func() error {
		seen, err := w.activity(t, leader, caller)
		if err == nil && seen.inFlight > 0 {
			err = fmt.Errorf("%d calls are in flight", seen.inFlight)
		}
		return err
	})
	return f
}

// thaw wakes the process when it has stood still for its time.
func (f *frozenReplica) thaw(t *testing.T) {
	t.Helper()
	time.Sleep(time.Until(f.since.Add(frozenFor)))
	f.signal(t, syscall.SIGCONT)
}
