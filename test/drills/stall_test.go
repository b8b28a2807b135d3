//go:build linux

package drills_test

import (
	"context"
	"sync"
	"time"
)

const (
	// tick is how often the process of the test wants to run, and stalled how late it is when the
	// machine is too busy for evidence in fractions of a second.
	tick    = 20 * time.Millisecond
	stalled = 200 * time.Millisecond
)

// stalls are the times in which the process of the test, which is also the clouds and the ways to
// the API server, did not get to run. A call that it has recorded then may have arrived, or have
// been canceled from the beginning of the stall on.
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

// earliest is when what was recorded at the time may have happened: goroutines that waited for
// their turn get it within moments of the end of a stall.
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
