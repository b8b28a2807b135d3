//go:build linux

package drills_test

import (
	"context"
	"sync"
	"time"
)

const (
	// tick is how often the test's process checks the clock, and stalled the delay from which the
	// machine is too busy for evidence in fractions of a second.
	tick    = 20 * time.Millisecond
	stalled = 200 * time.Millisecond
)

// stalls are the periods in which the test's process, which also serves the clouds and the proxies,
// did not run. A call recorded at the end of a stall may have arrived, or have been canceled, since
// its beginning.
type stalls struct {
	mu  sync.Mutex
	all []span
}

// observe watches the clock until ctx ends.
func (s *stalls) observe(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		time.Sleep(tick)
		now := time.Now()
		if now.Sub(last) > stalled {
			s.mu.Lock()
			s.all = append(s.all, span{last, now})
			s.mu.Unlock()
		}
		last = now
	}
}

// earliest is the earliest time of an event that was recorded at the given time: waiting goroutines
// run within moments after the end of a stall.
func (s *stalls) earliest(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.all) - 1; i >= 0; i-- {
		if at.After(s.all[i].from) && at.Before(s.all[i].until.Add(stalled)) {
			at = s.all[i].from
		}
	}
	return at
}

// longest is the longest stall.
func (s *stalls) longest() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stall := range s.all {
		longest = max(longest, stall.until.Sub(stall.from))
	}
	return longest
}
