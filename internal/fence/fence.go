// Package fence checks every mutating call of a term. When the term is over, the fence is closed,
// so that a goroutine that does not end with its context cannot act any more.
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

// ErrClosed is wrapped by the error of a call that comes after the fence was closed, or was
// canceled by its closing.
var ErrClosed = errors.New("the term is over")

// A Fence is open, then possibly held, then closed, then over. It never opens again. All methods
// are safe for concurrent use.
type Fence struct {
	expiry func() time.Time
	clock  clock.Clock
	calls  inflight.Set

	// closed ends when the fence closes, with the cause. That cancels the calls in flight. It is a
	// context because it is merged with the contexts of calls.
	closed context.Context
	close  context.CancelCauseFunc
	// over ends when reads end, too.
	over context.Context
	end  context.CancelCauseFunc

	held chan struct{}
	hold func()

	// mu excludes the admission of a call during Close.
	mu       sync.Mutex
	closedAt time.Time
	// expired reports that leadership was seen to expire. A later renewal does not open the fence,
	// so it must not hide the expiry from [Fence.CloseOnExpiry].
	expired bool
}

// New returns an open fence. expiry returns the time until which calls may be made. Nil, or a zero
// time, is no limit. expiry is called for each call, so that a process that was frozen past that
// time cannot act.
func New(expiry func() time.Time, clock clock.Clock) *Fence {
	f := &Fence{expiry: expiry, clock: clock, held: make(chan struct{})}
	f.closed, f.close = context.WithCancelCause(context.Background())
	f.over, f.end = context.WithCancelCause(context.Background())
	f.hold = sync.OnceFunc(func() { close(f.held) })
	return f
}

// Enter admits a call, or refuses it with an error that wraps ErrClosed. The returned context has
// ctx's values and ends with ctx or when the fence closes. done must be called when the call has
// returned.
func (f *Fence) Enter(
	ctx context.Context, call inflight.Activity,
) (_ context.Context, done func(), _ error) {
	call.Deadline, _ = ctx.Deadline()
	ended, err := f.admit(call)
	if err != nil {
		return nil, nil, err
	}
	merged, cancel := merge(ctx, f.closed)
	return merged, func() {
		cancel()
		ended()
	}, nil
}

// EnterWhenOpen is like Enter, but while the fence is held the call waits until the fence closes or
// ctx ends. It is for calls that begin a piece of work, not for those that finish one.
func (f *Fence) EnterWhenOpen(
	ctx context.Context, call inflight.Activity,
) (context.Context, func(), error) {
	select {
	case <-f.held:
		select {
		case <-f.closed.Done():
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	default:
	}
	call.BeginsWork = true
	return f.Enter(ctx, call)
}

// Read admits a read: a request that cannot change anything, or a watch. Reads continue when the
// fence is closed, because the end of a term needs some, and do not count as in flight. EndReads
// ends them, and Read then refuses new ones. done must be called when the last byte was read.
func (f *Fence) Read(ctx context.Context, name string) (_ context.Context, done func(), _ error) {
	if f.over.Err() != nil {
		return nil, nil, fmt.Errorf("%s refused: %w", name, context.Cause(f.over))
	}
	merged, cancel := merge(ctx, f.over)
	return merged, cancel, nil
}

// merge returns a context with the values of ctx that ends with ctx or with other, and with the
// cause of the one that ended.
func merge(ctx, other context.Context) (context.Context, func()) {
	merged, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return merged, func() {
		stop()
		cancel(nil)
	}
}

func (f *Fence) admit(call inflight.Activity) (end func(), _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeIfExpired()
	if f.closed.Err() != nil {
		return nil, fmt.Errorf("%s refused: %w", call.Name, context.Cause(f.closed))
	}
	return f.calls.Begin(call), nil
}

// closeIfExpired is called with the lock held.
func (f *Fence) closeIfExpired() {
	if !f.expired && f.remaining() <= 0 {
		f.expired = true
		f.shut(fmt.Errorf("%w: leadership expired without a renewal", ErrClosed))
	}
}

// remaining returns how long calls may still be made, unless leadership is renewed. Go's monotonic
// clock stops while the machine is suspended, and the wall clock may be set back, so the later of
// the two counts. A wall clock that is set forward by more than the remaining time ends the term,
// which is harmless.
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

// CloseOnExpiry closes the fence when leadership expires, so that calls in flight are canceled,
// too. It returns true when leadership has expired, even if the fence was closed before for another
// reason, and false when ctx ends.
func (f *Fence) CloseOnExpiry(ctx context.Context) bool {
	closed := f.closed.Done()
	for {
		f.mu.Lock()
		f.closeIfExpired()
		expired, remaining := f.expired, f.remaining()
		f.mu.Unlock()
		if expired {
			return true
		}
		// The timer stops while the machine is suspended. The limit of a second ensures that a call
		// in flight is canceled soon after a suspension.
		timer := f.clock.NewTimer(min(remaining, time.Second))
		select {
		case <-timer.C():
		case <-closed:
			closed = nil
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// Hold makes new pieces of work wait. Calls in flight continue.
func (f *Fence) Hold() { f.hold() }

// Close refuses all later calls and cancels those in flight. Only the first cause counts.
func (f *Fence) Close(cause error) {
	// With the lock, no call is admitted after Close has returned.
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut(fmt.Errorf("%w: %w", ErrClosed, cause))
}

// EndReads closes the fence if it is open, ends all reads with the cause of the close, and refuses
// new ones.
func (f *Fence) EndReads(cause error) {
	f.Close(cause)
	f.end(context.Cause(f.closed))
}

// shut is called with the lock held.
func (f *Fence) shut(cause error) {
	if f.closed.Err() == nil {
		f.closedAt = f.clock.Now()
		f.close(cause)
	}
}

// WhileOpen returns a context that ends when the fence closes, with the cause of the close.
func (f *Fence) WhileOpen() context.Context { return f.closed }

// ClosedAt returns when the fence was closed. No call was admitted later. It is zero before that.
func (f *Fence) ClosedAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closedAt
}

// Cause returns why the fence was closed: an error that wraps ErrClosed. It is nil before that.
func (f *Fence) Cause() error { return context.Cause(f.closed) }

// InFlight returns the calls that have not returned, oldest first.
func (f *Fence) InFlight() []inflight.Activity { return f.calls.List() }

// WaitWork waits until no call that begins a piece of work is in flight, or ctx ends. While the
// fence is held, no such call begins.
func (f *Fence) WaitWork(ctx context.Context) error {
	return f.calls.Wait(ctx, 0, inflight.BeginsWork)
}

// WaitActing waits until no call that may change anything is in flight, or ctx ends.
func (f *Fence) WaitActing(ctx context.Context) error {
	return f.calls.Wait(ctx, 0, inflight.MayAct)
}

// WaitQuiet waits until no passing call has been in flight for the length of quiet, or ctx ends.
// With quiet > 0 it also waits for the next call of the same work, such as the write of a Service's
// status after its load balancer was created.
func (f *Fence) WaitQuiet(ctx context.Context, quiet time.Duration) error {
	return f.calls.Wait(ctx, quiet, inflight.Passing)
}
