package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// errStillRunning: something that needs leadership runs without it.
var errStillRunning = errors.New(
	"a reconciler or another runnable has not ended although leadership has")

// tracked is controller-runtime's manager, and knows when what was added to it has ended. A
// controller's Start returns when its last reconciliation has.
type tracked struct {
	ctrl.Manager
	// running is read-locked by each runnable for as long as it runs.
	running sync.RWMutex
}

// Add implements manager.Manager.
func (t *tracked) Add(r manager.Runnable) error {
	return t.Manager.Add(trackedRunnable{r, &t.running})
}

// waitEnded waits until all has ended; the error is errStillRunning if it does not within limit.
func (t *tracked) waitEnded(limit time.Duration) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.running.Lock()
		defer t.running.Unlock()
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%w, within %s", errStillRunning, limit)
	}
}

type trackedRunnable struct {
	manager.Runnable
	running *sync.RWMutex
}

// Start implements manager.Runnable.
func (r trackedRunnable) Start(ctx context.Context) error {
	r.running.RLock()
	defer r.running.RUnlock()
	return r.Runnable.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. What does not say needs it, as for
// controller-runtime.
func (r trackedRunnable) NeedLeaderElection() bool {
	says, ok := r.Runnable.(manager.LeaderElectionRunnable)
	return !ok || says.NeedLeaderElection()
}
