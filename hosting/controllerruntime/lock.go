package controllerruntime

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// strictLock is the lock of one campaign. It ends the campaign when another process is seen to hold
// the lease, and refuses a release while runnables run or their calls are in flight.
//
// Client-go's elector tries to get a lost lease back for the rest of its renew deadline.
// Reconcilers would continue beside the other leader. A manager releases the lease when its
// graceful shutdown times out, even if reconcilers run.
type strictLock struct {
	resourcelock.Interface
	taken context.CancelCauseFunc
	// acting names the runnables and calls that may still act.
	acting func() []string
	held   atomic.Bool
}

// Get implements resourcelock.Interface.
func (l *strictLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && l.held.Swap(false) {
		l.taken(fmt.Errorf("the lease %s was taken by %q", l.Describe(), record.HolderIdentity))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *strictLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.written(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *strictLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if acting := l.acting(); record.HolderIdentity == "" && len(acting) > 0 {
		return fmt.Errorf("the lease %s is not released, because these have not ended: %s",
			l.Describe(), strings.Join(acting, ", "))
	}
	return l.written(record, l.Interface.Update(ctx, record))
}

func (l *strictLock) written(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.held.Store(record.HolderIdentity == l.Identity())
	}
	return err
}

// noEvents is a recorder.Provider without recorders, because the lock outlives the recorders of a
// manager.
type noEvents struct{}

func (noEvents) GetEventRecorderFor(string) record.EventRecorder { return nil }

func (noEvents) GetEventRecorder(string) recorder.EventRecorder { return nil }
