package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// Host is an [Elector] for a host with its own election. The host calls [Host.Lead]
// when it has won, and the Manager leads for as long as the host does. It is safe for concurrent
// use, and also an [Reporter].
//
// With controller-runtime's manager it is a Runnable that needs leader election:
//
//	type leading struct{ *election.Host }
//
//	func (l leading) Start(ctx context.Context) error { return l.Lead(ctx, election.Grant{}) }
//	func (leading) NeedLeaderElection() bool          { return true }
//
// The fence works as with the default elector if the host wraps its lock with [Host.Watch]
// or gives Lead a [Grant.ValidUntil]. Without either, a process that was frozen past its lease can
// act until its election notices.
//
// One Host serves one Manager.
type Host struct {
	lease *leaseRecord

	mu sync.Mutex
	// changed is closed and replaced whenever a field below changes.
	changed chan struct{}
	offer   *offer
	// electing reports whether a Manager campaigns or leads.
	electing bool
	// leading reports whether a term runs, blocking is a timed-out term that may still act.
	leading  bool
	blocking drainTimeout
	// watched is the validity of the lease that Watch observes, and wrong why it has none.
	watched Grant
	wrong   error
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
	timedOut drainTimeout
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

var _ Reporter = (*Host)(nil)

// NewHost returns an elector that does not lead before [Host.Lead] is called.
func NewHost() *Host {
	return &Host{lease: &leaseRecord{clock: clock.RealClock{}}, changed: make(chan struct{})}
}

// Lead lends the host's leadership to the Manager until ctx ends. It returns when no activity of
// the Manager can act any more. The host must keep its leadership until Lead has returned.
//
// The end of ctx is a loss of leadership: the fence closes at once, and calls in flight are
// canceled. A host that only stops ends the Manager's Run first, so that calls in flight can
// finish, and ends ctx after Run has returned. A term that fails by itself is followed by another
// one after a pause, while Lead continues.
//
// The error is nil if the Manager cannot act any more. It is a *ccm.DrainTimeoutError if some calls
// of the term may still act: the host must then let its leadership expire instead of releasing it,
// or end the process. It is also an error to call Lead while another call has not returned, or
// before a watched lock was won.
//
// g says how long leadership is valid. Without ValidUntil the validity comes from
// [Host.Watch], or is unlimited.
func (e *Host) Lead(ctx context.Context, g Grant) error {
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

func (e *Host) begin(o *offer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offer != nil {
		return errors.New("election: Lead was called while another call has not returned")
	}
	if e.wrong != nil {
		return e.wrong
	}
	if o.grant.ValidUntil == nil && e.watched.ValidUntil != nil {
		if e.lease.snapshot().LastRenewal.IsZero() {
			return errors.New(
				"election: the lock that Host.Watch returned has not been written: " +
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
func (e *Host) wait(cond func() (bool, error), contexts ...context.Context) error {
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
func (e *Host) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	e.mu.Lock()
	isTwice := e.electing
	e.electing = true
	e.mu.Unlock()
	if isTwice {
		return errors.New("election: another Manager uses this Host: give each one its own")
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.electing = false
	}()
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
		lose(fmt.Errorf("%w: the host's leadership has ended: %w", ErrLost,
			context.Cause(taken.ctx)))
	})()
	err = lead(led, taken.grant)
	e.ended(taken, err)
	return err
}

func (e *Host) ended(taken *offer, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// The lock that Watch has wrapped is not released while calls may still act.
	if timedOut, ok := errors.AsType[drainTimeout](err); ok && timedOut.MayAct() {
		taken.timedOut, e.blocking = timedOut, timedOut
	}
	e.leading, e.lose = false, nil
	e.notify()
}

// notify wakes all waiting calls. The lock is held.
func (e *Host) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Watch wraps the lock of the host's own election. The host gives the result to its elector. As
// with the default elector, the fence closes by the clock if the lease was not renewed, and at once
// if another process has taken it. The lock refuses a release while a term runs. leaseDuration and
// renewDeadline are those of the host's election. Call Watch once, before Lead.
//
// A standby takes a released lease at once if both locks are a *resourcelock.LeaseLock, to which
// Watch adds a proof of release. Otherwise it waits for leaseDuration, because any client with the
// permission can write a lease that looks released.
//
// leaseDuration must be longer than renewDeadline, and that longer than 0. Else Lead returns an
// error.
func (e *Host) Watch(
	lock resourcelock.Interface, leaseDuration, renewDeadline time.Duration,
) resourcelock.Interface {
	e.mu.Lock()
	defer e.mu.Unlock()
	if renewDeadline <= 0 || leaseDuration <= renewDeadline {
		e.wrong = fmt.Errorf("election: Host.Watch was called with the lease duration %s and the "+
			"renew deadline %s: the first must be longer than the second, and that longer than 0",
			leaseDuration, renewDeadline)
	}
	e.watched = e.lease.grant(leaseDuration, renewDeadline)
	e.lease.setIdentity(lock.Identity())
	var leases *provingLeases
	if given, ok := lock.(*resourcelock.LeaseLock); ok {
		leases = &provingLeases{LeasesGetter: given.Client, proof: &releaseProof{}}
		proving := *given
		proving.Client, lock = leases, &proving
	}
	return &watchedLock{
		Interface: lock, leases: leases, record: e.lease, duration: leaseDuration,
		onLost: e.taken, onWon: e.won, mayRelease: e.mayRelease,
	}
}

func (e *Host) taken(holder string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offer != nil {
		e.offer.taken = true
	}
	if e.lose != nil {
		e.lose(fmt.Errorf("%w: %q has taken the host's lease", ErrLost, holder))
	}
}

// won records that the host holds its lease again, perhaps before its election has noticed the
// loss.
func (e *Host) won() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offer != nil {
		e.offer.taken = false
	}
	e.notify()
}

func (e *Host) mayRelease() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leading || e.blocking != nil && !hasEnded(e.blocking) {
		return errNotDrained
	}
	return nil
}

// Status implements [Reporter]. Without [Host.Watch] it is empty.
func (e *Host) ElectionStatus() Status { return e.lease.snapshot() }

func hasEnded(e drainTimeout) bool {
	select {
	case <-e.Ended():
		return true
	default:
		return false
	}
}
