package ccmtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
)

// A ManualElector is an [election.Elector] that the test controls. If several Managers share one,
// at most one of them leads at a time, as with a lease. It is safe for concurrent use.
type ManualElector struct {
	mu sync.Mutex
	// changed is closed and replaced whenever anything below changes.
	changed chan struct{}
	granted bool
	current *stretch
	begun   int
	last    Release
}

// stretch is the current stretch of leadership.
type stretch struct {
	number  int
	lose    context.CancelCauseFunc
	expired bool
}

// A Release is the result of a stretch of leadership.
type Release struct {
	// Number counts the stretches of the elector from 1.
	Number int

	// Drained reports that all calls of the term had ended, so that another process could lead. It
	// is false if the term ended with a [*ccm.DrainTimeoutError]; a lease would then be left to
	// expire.
	Drained bool

	// Err is why the term ended: it wraps [election.ErrLost], [ccm.ErrStopped] or an error of
	// the term, or is a *ccm.DrainTimeoutError.
	Err error
}

var _ election.Elector = (*ManualElector)(nil)

// NewManualElector returns an elector that grants no leadership until [ManualElector.Lead] is
// called.
func NewManualElector() *ManualElector {
	return &ManualElector{changed: make(chan struct{})}
}

// Lead lets the campaigning Manager lead. After a term has ended by itself or by a stop, a Manager
// leads again, as with a free lease, until [ManualElector.Lose] is called or a term does not drain.
// It does not wait.
func (e *ManualElector) Lead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.granted = true
	e.notify()
}

// Lose takes leadership away until [ManualElector.Lead] is called again. It cancels the term's
// context with a cause that wraps [election.ErrLost] and, if it is not nil, cause. It does not
// wait; see [ManualElector.WaitReleased].
func (e *ManualElector) Lose(cause error) {
	if cause == nil {
		cause = errors.New("the test said so")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.granted = false
	if e.current != nil {
		e.current.lose(fmt.Errorf("%w: %w", election.ErrLost, cause))
	}
	e.notify()
}

// ExpireClock sets the time until which leadership is valid into the past, for the rest of this
// stretch of leadership, without a notice to the Manager. The same happens to a process that was
// frozen for longer than its lease. The term ends at its first call, and leadership is not granted
// again before [ManualElector.Lead], because another process would have taken the lease. Without
// leadership it is a no-op.
func (e *ManualElector) ExpireClock() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != nil {
		e.current.expired, e.granted = true, false
	}
}

// Leading reports whether a Manager holds leadership. A term that drains still holds it.
func (e *ManualElector) Leading() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current != nil
}

// WaitReleased waits until leadership is released, and returns the result of the last stretch.
// After [ManualElector.Lose] that means that the term is over in every respect. It fails the test
// after [WaitLimit].
func (e *ManualElector) WaitReleased(t testing.TB) Release {
	t.Helper()
	return Eventually(t, "leadership is given back", func(context.Context) (Release, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.current == nil && e.begun > 0 {
			return e.last, nil
		}
		return Release{}, errors.New(e.describe())
	})
}

func (e *ManualElector) describe() string {
	switch {
	case e.current != nil:
		return fmt.Sprintf("stretch %d of leadership is held", e.current.number)
	case e.granted:
		return "no Manager campaigns, or none did in time"
	case e.begun == 0:
		return "Lead was not called"
	}
	return fmt.Sprintf("stretch %d of leadership ended: %v", e.last.Number, e.last.Err)
}

// Elect implements [election.Elector].
func (e *ManualElector) Elect(
	ctx context.Context, lead func(context.Context, election.Grant) error,
) error {
	led, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	held, err := e.win(ctx, lose)
	if err != nil {
		return err
	}
	err = lead(led, election.Grant{ValidUntil: func() time.Time { return e.validUntil(held) }})
	e.release(held, err)
	return err
}

// win waits for leadership.
func (e *ManualElector) win(ctx context.Context, lose context.CancelCauseFunc) (*stretch, error) {
	for {
		e.mu.Lock()
		if ctx.Err() != nil {
			e.mu.Unlock()
			return nil, context.Cause(ctx)
		}
		if e.granted && e.current == nil {
			e.begun++
			held := &stretch{number: e.begun, lose: lose}
			e.current = held
			e.notify()
			e.mu.Unlock()
			return held, nil
		}
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (e *ManualElector) release(held *stretch, err error) {
	timedOut := (*ccm.DrainTimeoutError)(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = Release{Number: held.number, Drained: !errors.As(err, &timedOut), Err: err}
	if !e.last.Drained {
		e.granted = false
	}
	e.current = nil
	e.notify()
}

func (e *ManualElector) validUntil(held *stretch) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if held.expired {
		return time.Unix(0, 0)
	}
	return time.Now().Add(time.Hour)
}

// notify wakes all waiting goroutines. The caller holds the lock.
func (e *ManualElector) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}
