package ccm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// HostElector is an [Elector] for a host with its own election. The host calls [HostElector.Lead]
// when it has won, and the Manager leads for as long as the host does. It is safe for concurrent
// use, and also an [ElectionReporter].
//
// With controller-runtime's manager it is a Runnable that needs leader election:
//
//	type leading struct{ *ccm.HostElector }
//
//	func (l leading) Start(ctx context.Context) error { return l.Lead(ctx, ccm.Grant{}) }
//	func (leading) NeedLeaderElection() bool          { return true }
//
// The fence works as with the default elector if the host wraps its lock with [HostElector.Watch]
// or gives Lead a [Grant.ValidUntil]. Without either, a process that was frozen past its lease can
// act until its election notices.
//
// One HostElector serves one Manager.
type HostElector struct {
	lease *leaseRecord

	mu sync.Mutex
	// changed is closed and replaced whenever a field below changes.
	changed chan struct{}
	offer   *offer
	// leading reports whether a term runs, blocking is a timed-out term that may still act.
	leading  bool
	blocking *DrainTimeoutError
	// watched is the validity of the lease that Watch observes.
	watched Grant
	// lose ends the running term.
	lose context.CancelCauseFunc
}

// offerRecheck is the pause between two checks of the offer, because no event reports that an
// expired lease was renewed.
const offerRecheck = time.Second

// offer is the leadership that the host lends.
type offer struct {
	ctx   context.Context
	grant Grant
	// No further term begins on the offer if timedOut is set or taken is true. taken means that
	// another process was seen to hold the lease.
	timedOut *DrainTimeoutError
	taken    bool
}

// isUsable reports whether a term may begin on the offer.
func (o *offer) isUsable() bool {
	if o == nil || o.ctx.Err() != nil || o.timedOut != nil || o.taken {
		return false
	}
	valid := o.grant.ValidUntil
	return valid == nil || time.Now().Before(valid())
}

var _ ElectionReporter = (*HostElector)(nil)

// NewHostElector returns an elector that does not lead before [HostElector.Lead] is called.
func NewHostElector() *HostElector {
	return &HostElector{lease: &leaseRecord{clock: clock.RealClock{}}, changed: make(chan struct{})}
}

// Lead lends the host's leadership to the Manager until ctx ends. It returns when no activity of
// the Manager can act any more. The host must keep its leadership until Lead has returned.
//
// The end of ctx is a loss of leadership: the fence closes at once, and calls in flight are
// canceled. A host that only stops ends the Manager's Run first, so that calls in flight can
// finish, and ends ctx after Run has returned. A term that fails by itself is followed by another
// one after a pause, while Lead continues.
//
// The error is nil if the Manager cannot act any more. It is a *[DrainTimeoutError] if some calls
// of the term may still act: the host must then let its leadership expire instead of releasing it,
// or end the process. It is also an error to call Lead while another call has not returned, or
// before a watched lock was won.
//
// g says how long leadership is valid. Without ValidUntil the validity comes from
// [HostElector.Watch], or is unlimited.
func (e *HostElector) Lead(ctx context.Context, g Grant) error {
	mine := &offer{ctx: ctx, grant: g}
	if err := e.begin(mine); err != nil {
		return err
	}
	return e.wait(func() (bool, error) {
		if mine.timedOut != nil {
			e.offer = nil
			return true, mine.timedOut
		}
		over := ctx.Err() != nil && !e.leading
		if over {
			e.offer = nil
		}
		return over, nil
	}, ctx)
}

func (e *HostElector) begin(o *offer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offer != nil {
		return errors.New("ccm: Lead was called while another call has not returned")
	}
	if o.grant.ValidUntil == nil && e.watched.ValidUntil != nil {
		if e.lease.snapshot().LastRenewal.IsZero() {
			return errors.New(
				"ccm: the lock that HostElector.Watch returned has not been written: " +
					"the host's elector must use that lock instead of its own")
		}
		o.grant = e.watched
	}
	e.offer = o
	e.notify()
	return nil
}

// wait calls cond with the lock held until it returns true: at once, after each change, when one of
// the contexts ends, and every offerRecheck.
func (e *HostElector) wait(cond func() (bool, error), contexts ...context.Context) error {
	for _, ctx := range contexts {
		defer context.AfterFunc(ctx, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.notify()
		})()
	}
	for {
		e.mu.Lock()
		done, err := cond()
		changed := e.changed
		e.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-changed:
		case <-time.After(offerRecheck): // leadership that has expired may have been renewed
		}
	}
}

// Elect implements [Elector].
func (e *HostElector) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	var taken *offer
	err := e.wait(func() (bool, error) {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if !e.offer.isUsable() {
			return false, nil
		}
		taken, e.leading = e.offer, true
		return true, nil
	}, ctx)
	if err != nil {
		return err
	}
	led, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	e.mu.Lock()
	e.lose = lose
	e.mu.Unlock()
	defer context.AfterFunc(taken.ctx, func() {
		lose(fmt.Errorf("%w: the host's leadership has ended: %w", ErrLeadershipLost,
			context.Cause(taken.ctx)))
	})()
	err = lead(led, taken.grant)
	e.ended(taken, err)
	return err
}

func (e *HostElector) ended(taken *offer, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// The lock that Watch has wrapped is not released while calls may still act.
	if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok && timedOut.MayAct() {
		taken.timedOut, e.blocking = timedOut, timedOut
	}
	e.leading, e.lose = false, nil
	e.notify()
}

// notify wakes all waiting calls. The lock is held.
func (e *HostElector) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Watch wraps the lock of the host's own election. The host gives the result to its elector. As
// with the default elector, the fence closes by the clock if the lease was not renewed, and at once
// if another process has taken it. The lock refuses a release while a term runs. leaseDuration and
// renewDeadline are those of the host's election. Call Watch once, before Lead.
func (e *HostElector) Watch(
	lock resourcelock.Interface, leaseDuration, renewDeadline time.Duration,
) resourcelock.Interface {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched = e.lease.grant(leaseDuration, renewDeadline)
	e.lease.setIdentity(lock.Identity())
	return &watchedLock{
		Interface: lock, record: e.lease, duration: leaseDuration,
		onLost: e.taken, onWon: e.won, mayRelease: e.mayRelease,
	}
}

func (e *HostElector) taken(holder string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offer != nil {
		e.offer.taken = true
	}
	if e.lose != nil {
		e.lose(fmt.Errorf("%w: %q has taken the host's lease", ErrLeadershipLost, holder))
	}
}

// won records that the host holds its lease again, perhaps before its election has noticed the
// loss.
func (e *HostElector) won() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offer != nil {
		e.offer.taken = false
	}
	e.notify()
}

func (e *HostElector) mayRelease() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leading || e.blocking != nil && !e.blocking.hasEnded() {
		return errNotDrained
	}
	return nil
}

// ElectionStatus implements [ElectionReporter]. Without [HostElector.Watch] it is empty.
func (e *HostElector) ElectionStatus() ElectionStatus { return e.lease.snapshot() }
