// Package waittest limits the waits of tests without an API server. Other tests use package
// ccmtest.
package waittest

import (
	"context"
	"testing"
	"time"
)

// Limit is far longer than any wait, even on a busy machine.
const Limit = 3 * time.Minute

// Context ends with the test, or after [Limit].
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Until waits until the condition holds, and fails the test after [Limit]. what completes the
// sentence "timed out waiting until …".
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
