// Package waittest has the waits of tests. The tests of hosts use those of package ccmtest.
package waittest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Limit is far longer than any wait, even on a busy machine.
const Limit = 3 * time.Minute

const (
	// shortestPause and longestPause limit the pause between two calls, which doubles each time.
	shortestPause, longestPause = time.Millisecond, 20 * time.Millisecond
	// longestRest limits the longer pause after a slow call, which leaves the processors to the
	// work that is awaited.
	longestRest = time.Second
	// reportTime is reserved for the report of a failed wait, and for the cleanup.
	reportTime = 5 * time.Second
)

// testsBegan is when the tests began.
var testsBegan = time.Now()

// Context ends with the test, or after [Limit].
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Limited is the context of one wait. It ends after [Limit], or shortly before the time of the test
// ends (go test -timeout). It does not derive from the test's own, which has ended when cleanups
// run.
func Limited(t testing.TB) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(Limit)
	timed, ok := t.(interface{ Deadline() (time.Time, bool) })
	// In a bubble of testing/synctest, the clock is years behind and Deadline panics.
	if isInBubble := time.Now().Before(testsBegan); ok && !isInBubble {
		if end, ok := timed.Deadline(); ok && end.Add(-reportTime).Before(deadline) {
			deadline = end.Add(-reportTime)
		}
	}
	return context.WithDeadline(context.Background(), deadline)
}

// A Condition holds when it returns true or no error. Its error describes the observed state.
type Condition interface {
	func() bool | func() error | func(ctx context.Context) error
}

// Until waits until the condition holds. At the limit it fails the test with the last error. what
// completes the sentence "timed out waiting until …".
func Until[C Condition](t testing.TB, what string, condition C) {
	t.Helper()
	ctx, cancel := Limited(t)
	defer cancel()
	if err := Poll(ctx, condition); err != nil {
		t.Fatalf("timed out waiting until %s; last seen: %v", what, err)
	}
}

// Poll is Until with another limit: when ctx ends, it returns the last error. Any goroutine may
// call it.
func Poll[C Condition](ctx context.Context, condition C) error {
	var last error
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		begun := time.Now()
		err := evaluate(ctx, condition)
		if err == nil {
			return nil
		}
		// The limit cancels the request in flight, and that error is not useful.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		rest := min(3*time.Since(begun), longestRest)
		select {
		case <-time.After(max(pause, rest)):
		case <-ctx.Done():
			return last
		}
	}
}

func evaluate(ctx context.Context, condition any) error {
	switch holds := condition.(type) {
	case func(context.Context) error:
		return holds(ctx)
	case func() error:
		return holds()
	case func() bool:
		if holds() {
			return nil
		}
	}
	return errors.New("it does not hold")
}
