package octavia

import (
	"maps"
	"sync"
	"time"
)

// clockResolution is more than the second to which Octavia rounds the time of a change.
const clockResolution = 2 * time.Second

// Cache holds the contents of load balancers as of their UpdatedAt, which every change of a part
// changes. It only saves requests: missing contents are read again. It is safe for concurrent use.
// The caller serializes the writes to one load balancer.
type Cache struct {
	mu      sync.Mutex
	entries map[string]*entry
	// writes are the times of fxccm's last writes, by load balancer ID or Service UID.
	writes map[string]time.Time
	// writeLife is how long the writes are kept: a list may be half as old.
	writeLife time.Duration
}

// entry is the cached state of one load balancer.
type entry struct {
	version
	// contents is nil if unknown.
	contents *Contents
	// states are the last applied states, by Service UID.
	states map[string]*stateAt
}

// version is the UpdatedAt of a cached state, and when it was first seen. The zero value means that
// fxccm has written since, and the UpdatedAt after that write has not been seen.
type version struct{ updatedAt, seenAt time.Time }

func (v version) is(lb *LoadBalancer) bool {
	return !v.seenAt.IsZero() && v.updatedAt.Equal(lb.UpdatedAt)
}

// AppliedState is the desired state of one Service that a load balancer is known to have.
type AppliedState struct {
	// Hash of the desired state; "" if a part is not applied yet.
	Hash string
	// Compared: every field was compared, even those that a status tree omits.
	Compared bool
	// Omitted are the fields that a status tree omits, as they were last applied.
	Omitted string
}

type stateAt struct {
	AppliedState
	version
}

// Known is the cached state of a load balancer.
type Known struct {
	// Contents are nil if they are unknown, or the load balancer has changed since.
	Contents *Contents
	// State was applied last. Current: the load balancer has not changed since.
	State   AppliedState
	Current bool
}

// Lookup returns the cached state of a load balancer, and of the Service's part in it.
func (c *Cache) Lookup(lb *LoadBalancer, service string) Known {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[lb.ID]
	if e == nil {
		return Known{}
	}
	var known Known
	if e.is(lb) {
		known.Contents = e.contents
	}
	if s := e.states[service]; s != nil {
		known.State, known.Current = s.AppliedState, s.is(lb)
	}
	return known
}

// Confirm takes the UpdatedAt of an ACTIVE load balancer as that of fxccm's last write, if no
// UpdatedAt was seen after the write.
func (c *Cache) Confirm(lb *LoadBalancer, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[lb.ID]
	if e == nil || !e.seenAt.IsZero() {
		return
	}
	e.version = version{lb.UpdatedAt, now}
	for _, s := range e.states {
		if s.seenAt.IsZero() {
			s.version = e.version
		}
	}
}

// Store caches that a load balancer is in the desired state of the Service. at is a time before the
// contents were read, because a slow read may miss a change. Nil contents: they were not read.
func (c *Cache) Store(
	lb *LoadBalancer, contents *Contents, service string, state AppliedState,
	at time.Time,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(lb.ID)
	if !e.is(lb) {
		e.version, e.contents = version{lb.UpdatedAt, at}, nil
	}
	if contents != nil {
		e.contents = contents
	}
	if last := e.states[service]; last != nil && last.is(lb) && last.Hash == state.Hash &&
		last.Compared {
		state.Compared = true
	} else if at.Sub(e.seenAt) < clockResolution {
		// A later change within the same second does not change UpdatedAt.
		state.Compared = false
	}
	e.states[service] = &stateAt{state, e.version}
}

// Written replaces the cached state after fxccm has written to a load balancer: contents are nil if
// they are unknown, and the state has no Hash if it is not fully applied.
func (c *Cache) Written(
	id string, contents *Contents, service string, state AppliedState,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(id)
	if last := e.states[service]; last != nil && state.Hash == "" {
		state.Omitted = last.Omitted
	}
	e.version, e.contents = version{}, contents
	e.states[service] = &stateAt{AppliedState: state}
	for uid, s := range e.states {
		if uid != service && s.seenAt.IsZero() {
			// The result of another Service's write was not seen before this one.
			s.Hash = ""
		}
	}
}

// Invalidate makes the next reconcile read the load balancer.
func (c *Cache) Invalidate(id, service string) { c.Written(id, nil, service, AppliedState{}) }

// ForgetService frees the cached state of a deleted Service.
func (c *Cache) ForgetService(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.entries {
		if delete(e.states, uid); len(e.states) == 0 {
			delete(c.entries, id)
		}
	}
}

// forgetMissing frees the cached state of load balancers that are not in a list.
func (c *Cache) forgetMissing(s *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.entries, func(id string, _ *entry) bool {
		_, listed := s.byID[id]
		return !listed && !c.writes[id].After(s.Begun)
	})
}

func (c *Cache) entry(id string) *entry {
	if c.entries == nil {
		c.entries = map[string]*entry{}
	}
	e := c.entries[id]
	if e == nil {
		e = &entry{states: map[string]*stateAt{}}
		c.entries[id] = e
	}
	return e
}

// NoteWrite stores the time of fxccm's last write, by load balancer ID or Service UID, for as long
// as a list may be older.
func (c *Cache) NoteWrite(key string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == nil {
		c.writes = map[string]time.Time{}
	}
	maps.DeleteFunc(c.writes,
		func(_ string, at time.Time) bool { return now.Sub(at) > max(c.writeLife, 2*sharingPause) })
	c.writes[key] = now
}

// WrittenSince reports whether fxccm has written since a time.
func (c *Cache) WrittenSince(key string, begun time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.writes[key]
	return ok && !begun.After(at)
}

// LastWrite returns the time of fxccm's last write, or other if that is later.
func (c *Cache) LastWrite(key string, other time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.writes[key]; at.After(other) {
		return at
	}
	return other
}
