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
	// shortestPause and longestPause limit the pause between two probes, which doubles each time.
	shortestPause, longestPause = time.Millisecond, 20 * time.Millisecond
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

// Eventually calls probe until it returns no error, and returns its value. At the limit it fails
// the test with the last error. what completes the sentence "timed out waiting until …".
func Eventually[T any](t testing.TB, what string, probe func(ctx context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := Limited(t)
	defer cancel()
	var last error
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		begun := time.Now()
		value, err := probe(ctx)
		if err == nil {
			return value
		}
		// The limit cancels the request in flight, and that error is not useful.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(max(pause, time.Since(begun))):
		case <-ctx.Done():
			t.Fatalf("timed out waiting until %s; last seen: %v", what, last)
			return value
		}
	}
}

// Until is Eventually for a condition.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Eventually(t, what, func(context.Context) (_ struct{}, err error) {
		if !condition() {
			err = errors.New("it is not so")
		}
		return struct{}{}, err
	})
}
