// Package fence holds the one thing that every call of a term passes through before it may act on
// the world. When the term is over the fence is closed, so that a goroutine which lost track of
// its context cannot act any more.
package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/inflight"
)

// ErrClosed is wrapped by the error of a call that comes after the fence was closed, or was cancelled by its closing.
var ErrClosed = errors.New("the term is over")

// A Fence is open, then perhaps held, then closed; it never opens again. All methods are safe for
// concurrent use.
type Fence struct {
	expiry func() time.Time
	clock  clock.Clock
	calls  inflight.Set
	// work are those of the calls that begin a piece of work.
	work inflight.Set

	// closed ends when the fence closes, with the cause; calls in flight are cancelled by it. It is
	// no request's context: it is the fence's state in the form that contexts can be merged with.
	closed context.Context
	close  context.CancelCauseFunc
	held   chan struct{}
	hold   func()

	// mu orders the admission of a call against Close.
	mu       sync.Mutex
	closedAt time.Time
}

// New returns an open fence. expiry tells until when calls may be made by the clock; nil, or a zero time, is
// for ever. It is asked at each call, so that a process which was frozen past it cannot act before anything
// else has noticed.
func New(expiry func() time.Time, clock clock.Clock) *Fence {
	f := &Fence{expiry: expiry, clock: clock, held: make(chan struct{})}
	f.closed, f.close = context.WithCancelCause(context.Background())
	f.hold = sync.OnceFunc(func() { close(f.held) })
	return f
}

// Enter admits a call named name, or refuses it with an error that wraps ErrClosed. The returned
// context has ctx's values and ends with ctx or when the fence closes; done must be called when
// the call has returned.
func (f *Fence) Enter(ctx context.Context, name string) (_ context.Context, done func(), _ error) {
	end, err := f.admit(name)
	if err != nil {
		return nil, nil, err
	}
	merged, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.closed, func() { cancel(context.Cause(f.closed)) })
	return merged, func() {
		stop()
		cancel(nil)
		end()
	}, nil
}

// EnterWhenOpen is Enter, but while the fence is held the call waits until the fence closes or
// ctx ends. It is for calls that begin a piece of work, as opposed to those that finish one.
func (f *Fence) EnterWhenOpen(ctx context.Context, name string) (context.Context, func(), error) {
	select {
	case <-f.held:
		select {
		case <-f.closed.Done():
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	default:
	}
	merged, done, err := f.Enter(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	ended := f.work.Begin(name)
	return merged, func() {
		ended()
		done()
	}, nil
}

func (f *Fence) admit(name string) (end func(), _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeIfExpired()
	if f.closed.Err() != nil {
		return nil, fmt.Errorf("%s refused: %w", name, context.Cause(f.closed))
	}
	return f.calls.Begin(name), nil
}

// closeIfExpired is called with the lock held.
func (f *Fence) closeIfExpired() {
	if f.closed.Err() == nil && f.remaining() <= 0 {
		f.shut(fmt.Errorf("%w: leadership expired without a renewal", ErrClosed))
	}
}

// remaining is how long calls may be made yet, unless leadership is renewed. Go's monotonic clock stands still while the machine is
// suspended, and the wall clock may be set back: the one that says it is later is believed. A wall clock that is set forward by more
// than what was left costs a term, which is the smaller evil.
func (f *Fence) remaining() time.Duration {
	const forEver = 1<<63 - 1
	if f.expiry == nil {
		return forEver
	}
	until := f.expiry()
	if until.IsZero() {
		return forEver
	}
	now := f.clock.Now()
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// CloseOnExpiry closes the fence when leadership expires, so that calls in flight are cancelled too. It returns when the fence
// is closed, by whomever, or when ctx ends.
func (f *Fence) CloseOnExpiry(ctx context.Context) {
	for {
		f.mu.Lock()
		f.closeIfExpired()
		f.mu.Unlock()
		// The timer stands still with the machine, hence the limit: a call in flight must not outlive a suspension for long.
		timer := f.clock.NewTimer(min(f.remaining(), time.Second))
		select {
		case <-timer.C():
		case <-f.closed.Done():
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Hold lets calls in flight go on and makes new pieces of work wait.
func (f *Fence) Hold() { f.hold() }

// Close refuses every call from now on and cancels those in flight. Only the first cause counts.
func (f *Fence) Close(cause error) {
	// The lock makes sure that no call is admitted once Close has returned.
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut(fmt.Errorf("%w: %w", ErrClosed, cause))
}

// shut is called with the lock held.
func (f *Fence) shut(cause error) {
	if f.closed.Err() == nil {
		f.closedAt = f.clock.Now()
		f.close(cause)
	}
}

// ClosedAt is when the fence was closed: no call was admitted later. It is zero as long as it is not.
func (f *Fence) ClosedAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closedAt
}

// Cause is why the fence was closed: an error that wraps ErrClosed. It is nil as long as the fence is not.
func (f *Fence) Cause() error { return context.Cause(f.closed) }

// InFlight names the calls that have not returned, sorted.
func (f *Fence) InFlight() []string { return f.calls.Names() }

// WaitWork waits until no call that begins a piece of work is in flight, or ctx ends. While the fence is held there are no new ones.
func (f *Fence) WaitWork(ctx context.Context) error { return f.work.Wait(ctx, 0) }

// WaitQuiet waits until no call has been in flight for the length of quiet, or ctx ends. With
// quiet > 0 it bridges the gap between the calls of one piece of work, such as a load balancer
// that has been made and the status that tells of it.
func (f *Fence) WaitQuiet(ctx context.Context, quiet time.Duration) error {
	return f.calls.Wait(ctx, quiet)
}
