package waittest

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// longestWait is the longest wait of a caller. Longer timers are those of periodic work.
const longestWait = time.Minute

// Tick returns a clock with the time of now, which it advances by steps while a caller waits for a
// timer of the returned clock, until the test ends. No time passes while callers work, so a slow
// machine changes nothing.
func Tick(t testing.TB, now *clocktesting.FakeClock, by time.Duration) clock.WithTicker {
	t.Helper()
	c := &tickingClock{FakeClock: now, due: map[*tickingTimer]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			if c.isAwaited() {
				now.Step(by)
			}
		}
	})
	t.Cleanup(func() { cancel(); ticking.Wait() })
	return c
}

type tickingClock struct {
	*clocktesting.FakeClock

	mu sync.Mutex
	// due is when timers of callers fire.
	due map[*tickingTimer]time.Time
}

func (c *tickingClock) isAwaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for timer, due := range c.due {
		if due.After(c.Now()) {
			return true
		}
		delete(c.due, timer)
	}
	return false
}

// NewTimer implements clock.Clock.
func (c *tickingClock) NewTimer(d time.Duration) clock.Timer {
	timer := &tickingTimer{of: c}
	timer.note(d)
	timer.Timer = c.FakeClock.NewTimer(d)
	return timer
}

// After implements clock.Clock.
func (c *tickingClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

type tickingTimer struct {
	clock.Timer
	of *tickingClock
}

func (t *tickingTimer) note(d time.Duration) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	delete(t.of.due, t)
	if d <= longestWait {
		t.of.due[t] = t.of.Now().Add(d)
	}
}

// Stop implements clock.Timer.
func (t *tickingTimer) Stop() bool {
	t.note(2 * longestWait)
	return t.Timer.Stop()
}

// Reset implements clock.Timer.
func (t *tickingTimer) Reset(d time.Duration) bool {
	t.note(d)
	return t.Timer.Reset(d)
}
