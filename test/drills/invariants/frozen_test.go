//go:build linux

package invariants_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	freezes   = 10
	frozenFor = time.Minute
	// workers of each controller are fewer than the work of a batch, so that some of it is in
	// flight and some is queued.
	workers = 6
	batch   = 16
)

// Ten leaders, one after another, are frozen for a minute each, while the next one takes over. The
// calls in flight then succeed in the cloud, so when a leader wakes, all of its workers have an
// answer at once and are about to write it; more work is queued. Only the fence stops them, by the
// clock: the process has not been notified yet that its lease has expired.
//
// A leader is frozen while all of its workers wait for the cloud, because a fence in a process
// cannot stop a request that has passed it and that the freeze catches before the socket. It is
// sent when the process wakes.
func TestFrozenLeader_ChangesNothingWhenItWakes(t *testing.T) {
	w := newWorld(t, longLane)
	for i := range freezes + 1 {
		w.start(t,
			launch{name: fmt.Sprintf("replica-%d", i), lease: replica.QuickLease(), args: []string{
				fmt.Sprintf("--concurrent-service-syncs=%d", workers),
				fmt.Sprintf("--concurrent-node-syncs=%d", workers),
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
		f.AwaitEntry(t, 1, replica.Standby)
	}
	w.awaitConvergence(t)
	for _, f := range frozen {
		w.wantSilence(t, f.Replica, f.since, time.Time{})
		if got := f.Term(t); got != 1 || f.HasExited() {
			t.Errorf(
				"%s is in its term %d and runs: %t; want it to live and stand by after its first",
				f.Name, got, !f.HasExited())
		}
	}

	// They still work: one of them leads when the last leader has stopped.
	last.Signal(t, syscall.SIGTERM)
	if code := last.Wait(t); code != 0 {
		t.Errorf("%s ended with code %d", last.Name, code)
	}
	w.addWork(t, 4, 4)
	if heir := w.awaitLeader(t, last); heir.Term(t) != 2 {
		t.Errorf("%s leads in its term %d, want a replica that was frozen in its first", heir.Name,
			heir.Term(t))
	}
	w.awaitConvergence(t)
	w.wantOneTermAtATime(t)
	w.wantNothingMadeTwice(t)
}

type frozenReplica struct {
	*replica.Replica
	since time.Time
}

func replicasOf(frozen []*frozenReplica) (all []*replica.Replica) {
	for _, f := range frozen {
		all = append(all, f.Replica)
	}
	return all
}

// freezeAtWork gives the leader more work than it has workers, and freezes it when all of them wait
// for the cloud. The cloud answers while the process is frozen.
func (w *world) freezeAtWork(t *testing.T, leader *replica.Replica) *frozenReplica {
	t.Helper()
	caller := leader.Caller(leader.Term(t))
	release := w.cloud.On().By(caller).Hang()
	w.addWork(t, batch, batch)
	busy := replica.Steadily(t, "all workers of "+leader.Name+" wait for the cloud",
		400*time.Millisecond, func() (activity, error) {
			seen, err := w.activity(t, leader, caller)
			if err == nil && seen.inFlight < 2*workers {
				err = fmt.Errorf("%d calls are in flight", seen.inFlight)
			}
			return seen, err
		})
	leader.Freeze(t)
	f := &frozenReplica{Replica: leader, since: time.Now()}
	left, err := w.backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left.nodes+left.services <= busy.inFlight {
		t.Errorf("%s was frozen with %d calls in flight and nothing in its queues", leader.Name,
			busy.inFlight)
	}
	release()
	replica.Eventually(t, "the cloud has answered what "+leader.Name+" had in flight",
		func() error {
			seen, err := w.activity(t, leader, caller)
			if err == nil && seen.inFlight > 0 {
				err = fmt.Errorf("%d calls are in flight", seen.inFlight)
			}
			return err
		})
	return f
}

// thaw resumes the process when it has been frozen for its time.
func (f *frozenReplica) thaw(t *testing.T) {
	t.Helper()
	time.Sleep(time.Until(f.since.Add(frozenFor)))
	f.Signal(t, syscall.SIGCONT)
}
