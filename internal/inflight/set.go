// Package inflight lists the activities that have not ended: calls, requests, goroutines.
package inflight

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Activity is a call, a request or a goroutine that has not ended.
type Activity struct {
	// Name is such as "LoadBalancer.EnsureLoadBalancer" or "controller mine".
	Name string
	// Object is the affected object, such as "default/web". It may be empty.
	Object string
	// Since has the time at which the activity began. Begin sets it.
	Since time.Time
	// Deadline is when the activity should have ended. Zero: it has no deadline.
	Deadline time.Time
	// MayAct reports that the activity can change the cluster or the cloud.
	MayAct bool
	// BeginsWork reports that the activity is the first call of a piece of work.
	BeginsWork bool
	// Lasting marks an activity that is as long as the term, such as a child process.
	Lasting bool
}

// MayAct selects the activities that can change the cluster or the cloud.
func MayAct(a *Activity) bool { return a.MayAct }

// BeginsWork selects the activities that begin a piece of work.
func BeginsWork(a *Activity) bool { return a.BeginsWork }

// Passing selects the activities that end by themselves.
func Passing(a *Activity) bool { return !a.Lasting }

// Set holds activities. The zero value is empty and ready to use. It is safe for concurrent use.
type Set struct {
	mu  sync.Mutex
	all map[*Activity]struct{}
	// ended is closed and replaced whenever an activity ends.
	ended chan struct{}
}

// Begin adds an activity. The returned function removes it; it must be called exactly once.
func (s *Set) Begin(a Activity) (end func()) {
	a.Since = time.Now()
	begun := &a
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*Activity]struct{}{}
		s.ended = make(chan struct{})
	}
	s.all[begun] = struct{}{}
	return func() { s.end(begun) }
}

func (s *Set) end(a *Activity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, a)
	close(s.ended)
	s.ended = make(chan struct{})
}

// List returns the activities, oldest first, and by name if they began at the same time.
func (s *Set) List() []Activity {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Activity, 0, len(s.all))
	for a := range s.all {
		all = append(all, *a)
	}
	slices.SortFunc(all, func(a, b Activity) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Object, b.Object))
	})
	return all
}

// Wait waits until no selected activity has existed for the length of quiet, or returns ctx's error
// when ctx ends. If selected is nil, all activities count.
func (s *Set) Wait(ctx context.Context, quiet time.Duration, selected func(*Activity) bool) error {
	for {
		count, ended := s.count(selected)
		if count > 0 {
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
			if count, _ := s.count(selected); count == 0 {
				return nil
			}
		case <-ended:
			// An activity began and ended within quiet: start over.
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (s *Set) count(selected func(*Activity) bool) (n int, ended <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.all {
		if selected == nil || selected(a) {
			n++
		}
	}
	return n, s.ended
}

// Names returns the names of the activities, sorted, each once.
func (s *Set) Names() []string {
	var names []string
	for _, a := range s.List() {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
