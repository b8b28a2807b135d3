// Package inflight counts, by name, what has begun and not ended.
package inflight

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Set is a multiset of names of things that run. The zero value is empty and ready to use. It is
// safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	names map[string]int
	total int
	// ended is closed and replaced whenever something ends.
	ended chan struct{}
}

// Begin adds one name. The returned function removes it again; it must be called exactly once.
func (s *Set) Begin(name string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]int{}
		s.ended = make(chan struct{})
	}
	s.names[name]++
	s.total++
	return func() { s.end(name) }
}

func (s *Set) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.names[name]--; s.names[name] == 0 {
		delete(s.names, name)
	}
	close(s.ended)
	s.ended = make(chan struct{})
}

// Names lists what runs, sorted, each name once.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Wait waits until nothing has run for the length of quiet, or ctx ends.
func (s *Set) Wait(ctx context.Context, quiet time.Duration) error {
	for {
		total, ended := s.snapshot()
		if total > 0 {
			select {
			case <-ended:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if quiet <= 0 {
			return nil
		}
		timer := time.NewTimer(quiet)
		select {
		case <-timer.C:
			if total, _ := s.snapshot(); total == 0 {
				return nil
			}
		case <-ended:
			// Something began and ended within quiet: start over.
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (s *Set) snapshot() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.ended
}
