package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// memoryLock is a lease in memory, which a test can write as another process.
type memoryLock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := l.record
	return &record, nil, nil
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = record
	return nil
}

func (*memoryLock) Identity() string { return "me" }
func (*memoryLock) Describe() string { return "kube-system/control-plane" }

func TestStrictLock_EndsLeadershipWhenTheLeaseIsSeenToBeAnothers(t *testing.T) {
	inner := &memoryLock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "other"}}
	var cause error
	lock := &strictLock{Interface: inner, taken: func(err error) { cause = err }}
	look := func() {
		t.Helper()
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	look()
	if cause != nil {
		t.Errorf("a lease that was never held was lost: %v", cause)
	}
	if err := lock.Update(t.Context(),
		resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
		t.Fatal(err)
	}
	look()
	if cause != nil {
		t.Errorf("a lease that is held was lost: %v", cause)
	}
	inner.record.HolderIdentity = "other"
	look()
	if cause == nil || !strings.Contains(cause.Error(), `"other"`) {
		t.Errorf("the lease is another's, but the cause is %v", cause)
	}
}

func TestStrictLock_OwnReleaseIsNoLoss(t *testing.T) {
	lock := &strictLock{Interface: &memoryLock{}, taken: func(err error) {
		t.Errorf("lost: %v", err)
	}}
	for _, holder := range []string{"me", ""} {
		if err := lock.Update(t.Context(),
			resourcelock.LeaderElectionRecord{HolderIdentity: holder}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTracked_WaitsForWhatRunsAndSaysWhatDoesNotEnd(t *testing.T) {
	started, end := make(chan struct{}), make(chan struct{})
	var m tracked
	stubborn := trackedRunnable{manager.RunnableFunc(func(context.Context) error {
		close(started)
		<-end
		return nil
	}), &m.running}
	go func() { _ = stubborn.Start(t.Context()) }()
	<-started
	if err := m.waitEnded(time.Millisecond); !errors.Is(err, errStillRunning) {
		t.Errorf("one runs, but waitEnded returned %v", err)
	}
	close(end)
	if err := m.waitEnded(exitLimit); err != nil {
		t.Errorf("all have ended, but waitEnded returned %v", err)
	}
}

func TestTracked_NeedsLeadershipUnlessItSaysOtherwise(t *testing.T) {
	silent := manager.RunnableFunc(func(context.Context) error { return nil })
	if !(trackedRunnable{Runnable: silent}).NeedLeaderElection() {
		t.Error("what says nothing would run in every replica")
	}
	if !(trackedRunnable{Runnable: lead{}}).NeedLeaderElection() {
		t.Error("what needs leadership would run without")
	}
}
