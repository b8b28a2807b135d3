package waittest

import (
	"context"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// Tick advances the clock by steps while a caller waits for it, until the test ends.
func Tick(t testing.TB, now *clocktesting.FakeClock, by time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			if now.HasWaiters() {
				now.Step(by)
			}
		}
	})
	t.Cleanup(func() { cancel(); ticking.Wait() })
}
