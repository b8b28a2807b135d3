package controllerruntime

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/internal/inflight"
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

func none() []string { return nil }

func TestStrictLock_AnotherHolderIsSeen_CampaignEndsOnlyIfItHeldTheLease(t *testing.T) {
	cases := map[string]struct {
		written []string // holders that this process writes
		found   string   // the holder that Get finds after that
		lost    bool
	}{
		"never held":        {nil, "other", false},
		"held":              {[]string{"me"}, "me", false},
		"taken":             {[]string{"me"}, "other", true},
		"released by us":    {[]string{"me", ""}, "", false},
		"taken after that":  {[]string{"me", ""}, "other", false},
		"released by other": {[]string{"me"}, "", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inner := &memoryLock{}
			var cause error
			lock := &strictLock{
				Interface: inner, taken: func(err error) { cause = err }, acting: none,
			}
			for _, holder := range c.written {
				if err := lock.Update(t.Context(),
					resourcelock.LeaderElectionRecord{HolderIdentity: holder}); err != nil {
					t.Fatal(err)
				}
			}
			inner.record.HolderIdentity = c.found
			if _, _, err := lock.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if (cause != nil) != c.lost {
				t.Errorf("the cause is %v, want a cause: %v", cause, c.lost)
			}
			if cause != nil && !strings.Contains(cause.Error(), "kube-system/control-plane") {
				t.Errorf("the cause does not name the lease: %v", cause)
			}
		})
	}
}

func TestStrictLock_RunnableRuns_ReleaseIsRefused(t *testing.T) {
	inner := &memoryLock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "me"}}
	running := &inflight.Set{}
	lock := &strictLock{Interface: inner, acting: running.Names}
	release := func() error {
		return lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})
	}
	ended := running.Begin(inflight.Activity{Name: "stubborn"})
	if err := release(); err == nil || !strings.Contains(err.Error(), "stubborn") {
		t.Errorf("the error is %v, want one that names the runnable", err)
	}
	if inner.record.HolderIdentity != "me" {
		t.Error("the lease was released while a runnable runs")
	}
	ended()
	if err := release(); err != nil || inner.record.HolderIdentity != "" {
		t.Errorf("the lease is held by %q, error %v", inner.record.HolderIdentity, err)
	}
}
