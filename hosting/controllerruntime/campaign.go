package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/fence"
)

// ErrStillRunning is wrapped by the error of [Host.Run] if a reconciler or another runnable has not
// ended with its manager. Another process may lead by now, and only the end of this process stops
// the runnable.
var ErrStillRunning = errors.New("runnables have not ended with their manager")

// errEnded is the cause of a campaign whose manager ended without an error.
var errEnded = errors.New("controller-runtime's manager has ended")

// campaignUntil campaigns and leads, manager after manager, until ctx ends. The error wraps
// [ErrStillRunning].
func (h *Host) campaignUntil(ctx context.Context) error {
	if h.ran.Swap(true) {
		return errors.New("controllerruntime: a Host runs once; make another one with New")
	}
	h.informers.Start(nil)
	defer h.informers.stop()
	log := h.options.Logger.WithName("campaign")
	pauses := retryPauses()
	for {
		started, err := h.campaign(ctx)
		if errors.Is(err, ErrStillRunning) || ctx.Err() != nil {
			return onlyStillRunning(err)
		}
		if timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](err); ok {
			// The Host does not campaign beside a term that may still act.
			log.Error(err, "Campaign ended; campaigning again when the term has ended")
			select {
			case <-timedOut.Ended():
			case <-ctx.Done():
				return nil
			}
		}
		if started {
			pauses = retryPauses()
		}
		pause := pauses.Step()
		log.Info("Campaign ended; campaigning again with a new manager", "reason", err.Error(),
			"pause", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

func retryPauses() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}
}

func onlyStillRunning(err error) error {
	if errors.Is(err, ErrStillRunning) {
		return err
	}
	return nil
}

// campaign runs one manager. All its runnables have ended when campaign returns, or the error wraps
// [ErrStillRunning]. started reports whether the manager has been started.
func (h *Host) campaign(ctx context.Context) (started bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	calls := fence.New(h.validUntil, clock.RealClock{})
	defer calls.EndReads(errEnded)
	end := func(cause error) {
		calls.Close(cause)
		cancel(cause)
	}
	m, err := h.newManager(ctx, calls, end)
	if err != nil {
		return false, err
	}
	defer m.view.Shutdown()
	err = m.Start(ctx)
	if err == nil {
		err = errEnded
	}
	// After a loss, Start returns before the contexts of all runnables have ended. The first cause
	// counts.
	end(err)
	waiting, stop := context.WithTimeout(context.Background(),
		*h.options.LeaseDuration-*h.options.RenewDeadline)
	defer stop()
	if errors.Join(m.running.Wait(waiting, 0, nil), calls.WaitActing(waiting)) != nil {
		return true, fmt.Errorf("%w: %s; campaign ended because: %w", ErrStillRunning,
			strings.Join(m.acting(), ", "), context.Cause(ctx))
	}
	return true, context.Cause(ctx)
}

// newManager makes a manager that has not started. end ends its campaign.
func (h *Host) newManager(
	ctx context.Context, calls *fence.Fence, end context.CancelCauseFunc,
) (*trackedManager, error) {
	m := &trackedManager{calls: calls, pages: newPages(), view: h.informers.view()}
	options := h.options
	// Without this, reconcilers are canceled only after all runnables without leader election have
	// ended.
	options.BaseContext = baseContext(ctx, options.BaseContext)
	options.Cache = m.sharedCache(options.Cache)
	if h.lock != nil {
		m.lock = &strictLock{Interface: h.lock, taken: end, acting: m.acting}
		options.LeaderElectionResourceLockInterface = m.lock
	}
	made, err := ctrl.NewManager(h.restConfig, options)
	if err != nil {
		m.view.Shutdown()
		return nil, fmt.Errorf("create controller-runtime's manager: %w", err)
	}
	m.Manager = made
	if h.setup != nil {
		err = h.setup(m)
	}
	if err == nil {
		err = m.Add(lead{h.elector, calls, end})
	}
	if err != nil {
		m.view.Shutdown()
		return nil, fmt.Errorf("set up controller-runtime's manager: %w", err)
	}
	h.pages.Store(m.pages.seal())
	return m, nil
}

// baseContext returns a context of the campaign, with the values of the host's own base context.
func baseContext(campaign context.Context, own func() context.Context) func() context.Context {
	if own == nil {
		return func() context.Context { return campaign }
	}
	return func() context.Context {
		base, cancel := context.WithCancelCause(own())
		context.AfterFunc(campaign, func() { cancel(context.Cause(campaign)) })
		return base
	}
}

// lead lends the leadership of a manager to the cloud controller manager.
type lead struct {
	elector *election.Host
	calls   *fence.Fence
	end     context.CancelCauseFunc
}

// Start implements manager.Runnable. It returns when no activity of the term can act any more. An
// error of Lead becomes the cause of the campaign's end. It is not returned, because a manager
// aggregates errors without their types.
func (l lead) Start(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { l.calls.CloseOnExpiry(ctx) })
	if err := l.elector.Lead(ctx, election.Grant{}); err != nil {
		l.end(err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (lead) NeedLeaderElection() bool { return true }
