package ccmtest

import (
	"context"
	"testing"

	"github.com/fxccm/fxccm/internal/waittest"
)

// WaitLimit is how long every wait of this package lasts before it fails the test. It suits a
// machine that is busy with other work: a wait usually takes milliseconds, and reaches the limit
// only if the condition never holds. If the test has less time left (go test -timeout), the wait is
// shorter, so that it can still report its condition.
const WaitLimit = waittest.Limit

// Eventually calls probe until it returns no error, and returns its value. After [WaitLimit] it
// fails the test with the last error, which should describe the observed state. what completes the
// sentence "timed out waiting until …". The context of probe ends at the limit.
func Eventually[T any](t testing.TB, what string, probe func(ctx context.Context) (T, error)) T {
	t.Helper()
	var value T
	waittest.Until(t, what, func(ctx context.Context) (err error) {
		value, err = probe(ctx)
		return err
	})
	return value
}
