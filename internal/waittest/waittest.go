// Package waittest has the waits of tests. The tests of hosts use those of package ccmtest.
package waittest

import (
	"context"
	"errors"
	"flag"
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

// Context ends with the test, or after [Limit].
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Limited is the context of one wait. It ends after [Limit], or shortly before the time of the tests
// ends (go test -timeout). It does not derive from the test's own, which has ended when cleanups
// run.
func Limited() (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(Limit)
	if end := testsBegan.Add(timeout() - reportTime); end.After(testsBegan) && end.Before(deadline) {
		deadline = end
	}
	return context.WithDeadline(context.Background(), deadline)
}

var testsBegan = time.Now()

// timeout returns the value of go test -timeout, 0 for none. testing.T.Deadline panics in a bubble
// of testing/synctest, whose clock is years behind.
func timeout() time.Duration {
	if f := flag.Lookup("test.timeout"); f != nil {
		if d, ok := f.Value.(flag.Getter).Get().(time.Duration); ok {
			return d
		}
	}
	return 0
}

// Eventually calls probe until it returns no error, and returns its value. At the limit it fails
// the test with the last error. what completes the sentence "timed out waiting until …".
func Eventually[T any](t testing.TB, what string, probe func(ctx context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := Limited()
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
