package ccmtest

import (
	"context"
	"testing"
	"time"
)

// WaitLimit is how long every wait of this package lasts before it fails the test. It suits a
// machine that is busy with other work: a wait usually takes milliseconds, and reaches the limit
// only if the condition never holds. If the test has less time left (go test -timeout), the wait is
// shorter, so that it can still report its condition.
const WaitLimit = 3 * time.Minute

const (
	// pollInterval is for conditions that cannot be watched.
	pollInterval = 20 * time.Millisecond
	// reportTime is reserved for the report of a failed wait, and for the cleanup.
	reportTime = 5 * time.Second
)

// limited is the context of one wait. It does not derive from the test's own, which has ended when
// cleanups run.
func limited(t testing.TB) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(WaitLimit)
	if timed, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := timed.Deadline(); ok && end.Add(-reportTime).Before(deadline) {
			deadline = end.Add(-reportTime)
		}
	}
	return context.WithDeadline(context.Background(), deadline)
}

// Eventually calls probe until it returns no error, and returns its value. After [WaitLimit] it
// fails the test with the last error, which should describe the observed state. what completes the
// sentence "timed out waiting until …". The context of probe ends at the limit.
func Eventually[T any](t testing.TB, what string, probe func(ctx context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := limited(t)
	defer cancel()
	var last error
	for {
		value, err := probe(ctx)
		if err == nil {
			return value
		}
		// The limit cancels the request in flight, and that error is not useful.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			t.Fatalf("timed out waiting until %s; last seen: %v", what, last)
			return value
		}
	}
}
