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

// HostElector is an [Elector] for a host that has an election of its own: the host calls [HostElector.Lead] when it has won, and
// the Manager leads for as long as the host does. It is safe for concurrent use, and also an [ElectionReporter].
//
// With controller-runtime's manager it is a Runnable that needs leader election:
//
//	type leading struct{ *ccm.HostElector }
//
//	func (l leading) Start(ctx context.Context) error { return l.Lead(ctx, ccm.Grant{}) }
//	func (leading) NeedLeaderElection() bool          { return true }
//
// Leadership is fenced as with the default elector, if the host's lock goes through [HostElector.Watch] or Lead is given a
// [Grant.ValidUntil]. Without either, a process that was frozen past its lease can act until its election has noticed.
//
// One HostElector serves one Manager.
type HostElector struct {
	lease *leaseRecord

	mu sync.Mutex
	// changed is closed and replaced whenever anything below changes.
	changed chan struct{}
	offer   *offer
	// leading tells that a term runs. blocking is one that may still act after its drain timeout.
	leading  bool
	blocking *DrainTimeoutError
	// watched is what Watch sees.
	watched Grant
	// lose ends the term that runs.
	lose context.CancelCauseFunc
}

// offerRecheck is how soon leadership is taken that was renewed after it had expired, which nobody tells.
const offerRecheck = time.Second

// offer is leadership that the host lends.
type offer struct {
	ctx   context.Context
	grant Grant
	// timedOut is why the offer is not taken again; so is that the lease was seen to be another's.
	timedOut *DrainTimeoutError
	taken    bool
}

// good tells that a term may begin on the offer.
func (o *offer) good() bool {
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

// Lead lends the host's leadership to the Manager until ctx ends, and returns when nothing of the Manager acts any more. The
// host must hold its leadership until Lead has returned.
//
// The end of ctx is a loss: the fence closes at once, and calls in flight are cancelled. A host that merely wants to stop ends the
// Manager's Run first, so that calls in flight get their time, and ctx when it has returned. A term that fails by itself is
// followed by another one after a pause, while Lead goes on.
//
// The error is nil if nothing of the Manager can act. It is a *[DrainTimeoutError] if something of the term may still act: leadership must
// then not be released but left to expire, or the process ended. And it is an error to call Lead while another call has not returned, or
// when a watched lock has not been won.
//
// g tells how long leadership is valid; without ValidUntil it is what [HostElector.Watch] sees, or for ever.
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
		return errors.New("ccm: leadership is lent to the Manager already")
	}
	if o.grant.ValidUntil == nil && e.watched.ValidUntil != nil {
		if e.lease.snapshot().LastRenewal.IsZero() {
			return errors.New("ccm: the lock that HostElector.Watch returned has not been written: give it to the host's elector instead of its own")
		}
		o.grant = e.watched
	}
	e.offer = o
	e.notify()
	return nil
}

// wait asks cond, with the lock held, now and after each change and when one of the contexts ends, until it is true.
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
		if !e.offer.good() {
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
		lose(fmt.Errorf("%w: the host's leadership has ended: %w", ErrLeadershipLost, context.Cause(taken.ctx)))
	})()
	err = lead(led, taken.grant)
	e.ended(taken, err)
	return err
}

func (e *HostElector) ended(taken *offer, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// What may still act keeps the lock that Watch has wrapped from being released.
	if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok && timedOut.MayAct() {
		taken.timedOut, e.blocking = timedOut, timedOut
	}
	e.leading, e.lose = false, nil
	e.notify()
}

// notify wakes all who wait. The lock is held.
func (e *HostElector) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Watch returns the lock of the host's own election, for the host to give to its elector instead: it sees when the lease is renewed,
// and closes the fence by the clock when it has not been, or when another process is seen to have taken it, as the default elector does.
// It also keeps a release back while a term runs. leaseDuration and renewDeadline are those that the host's election uses. Call it once, before Lead.
func (e *HostElector) Watch(lock resourcelock.Interface, leaseDuration, renewDeadline time.Duration) resourcelock.Interface {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched = e.lease.grant(leaseDuration, renewDeadline)
	e.lease.identify(lock.Identity())
	return &watchedLock{Interface: lock, record: e.lease, duration: leaseDuration, taken: e.taken, won: e.won, mayRelease: e.mayRelease}
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

// won tells that the host holds its lease again, perhaps before its election has noticed that it did not.
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

// ElectionStatus implements [ElectionReporter]. Without [HostElector.Watch] nothing is known of the election.
func (e *HostElector) ElectionStatus() ElectionStatus { return e.lease.snapshot() }
