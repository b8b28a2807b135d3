package ccmtest

import (
	"context"
	"testing"
	"time"
)

// WaitLimit is how long every wait of this package goes on before it fails the test. It is
// generous: what is waited for usually takes milliseconds, and the limit is only for what never
// comes. A test that has less time left (go test -timeout) waits shorter, so that it can still say
// what it waited for.
const WaitLimit = time.Minute

const (
	// pollInterval is for what cannot be watched.
	pollInterval = 20 * time.Millisecond
	// reportTime is what is left of a test's time to report a failed wait, and to clean up.
	reportTime = 5 * time.Second
)

// limited is the context of one wait. It is not the test's own, which has ended when cleanups run.
func limited(t testing.TB) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(WaitLimit)
	if timed, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := timed.Deadline(); ok && end.Add(-reportTime).Before(deadline) {
			deadline = end.Add(-reportTime)
		}
	}
	return context.WithDeadline(context.Background(), deadline)
}

// Eventually asks probe again and again until it returns no error, and returns its value. After
// [WaitLimit] it fails the test with the last error, which should say what was seen instead. what
// completes the sentence "timed out waiting until …". The context given to probe ends at the limit.
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
		// The limit cancels the request in flight, and that error tells nothing.
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
