package octavia

import (
	"testing"
	"time"
)

// A cache that returns a stale state as current would hide drift forever.
func TestCache_LoadBalancerChanges_IsReadAgain(t *testing.T) {
	t.Parallel()
	begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	seen := func(seconds int) *LoadBalancer {
		return &LoadBalancer{ID: "lb", UpdatedAt: at(seconds)}
	}
	contents := &Contents{Pools: []Pool{{ID: "pool"}}}
	state := AppliedState{Hash: "wanted", Compared: true, Omitted: "weights"}
	for name, test := range map[string]struct {
		do       func(*Cache)
		look     *LoadBalancer
		current  bool
		contents bool
		hash     string
		compared bool
	}{
		"unknown": {do: func(*Cache) {}, look: seen(0)},
		"stored": {
			do:   func(c *Cache) { c.Store(seen(0), contents, "a", state, at(0)) },
			look: seen(0), current: true, contents: true, hash: "wanted",
		},
		"stored, and compared when the second of the change is over": {
			do: func(c *Cache) {
				c.Store(seen(0), contents, "a", state, at(0))
				c.Store(seen(0), contents, "a", state, at(2))
			},
			look: seen(0), current: true, contents: true, hash: "wanted", compared: true,
		},
		"changed by another client": {
			do:   func(c *Cache) { c.Store(seen(0), contents, "a", state, at(0)) },
			look: seen(1), hash: "wanted",
		},
		"written, and not seen since": {
			do:   func(c *Cache) { c.Written("lb", contents, "a", state) },
			look: seen(1), hash: "wanted", compared: true,
		},
		"written, and seen": {
			do: func(c *Cache) {
				c.Written("lb", contents, "a", AppliedState{Hash: "wanted"})
				c.Confirm(seen(1), at(1))
			},
			look: seen(1), current: true, contents: true, hash: "wanted",
		},
		"written, seen, and changed by another client": {
			do: func(c *Cache) {
				c.Written("lb", contents, "a", AppliedState{Hash: "wanted"})
				c.Confirm(seen(1), at(1))
				c.Confirm(seen(2), at(2))
			},
			look: seen(2), hash: "wanted",
		},
		"written by another Service before the first write was seen": {
			do: func(c *Cache) {
				c.Written("lb", contents, "a", AppliedState{Hash: "wanted"})
				c.Written("lb", nil, "b", AppliedState{Hash: "other"})
				c.Confirm(seen(1), at(1))
			},
			look: seen(1), current: true,
		},
		"invalidated": {
			do: func(c *Cache) {
				c.Store(seen(0), contents, "a", state, at(0))
				c.Invalidate("lb", "a")
			},
			look: seen(0),
		},
		"its Service is gone": {
			do: func(c *Cache) {
				c.Store(seen(0), contents, "a", state, at(0))
				c.ForgetService("a")
			},
			look: seen(0),
		},
		"it is missing from a list": {
			do: func(c *Cache) {
				c.Store(seen(0), contents, "a", state, at(0))
				c.forgetMissing(&Snapshot{Begun: at(1)})
			},
			look: seen(0),
		},
		"it was created after the list was begun": {
			do: func(c *Cache) {
				c.NoteWrite("lb", at(2))
				c.Store(seen(0), contents, "a", state, at(2))
				c.forgetMissing(&Snapshot{Begun: at(1)})
			},
			look: seen(0), current: true, contents: true, hash: "wanted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Cache{}
			test.do(c)
			got := c.Lookup(test.look, "a")
			if got.Current != test.current || (got.Contents != nil) != test.contents ||
				got.State.Hash != test.hash || got.State.Compared != test.compared {
				t.Errorf("the cache has %+v", got)
			}
		})
	}
}

// After an incomplete write, the fields that a status tree omits must not count as unchanged.
func TestCache_WriteIsIncomplete_KeepsTheOmittedFields(t *testing.T) {
	t.Parallel()
	c, lb := &Cache{}, &LoadBalancer{ID: "lb"}
	c.Written("lb", nil, "a", AppliedState{Hash: "wanted", Omitted: "weights"})
	c.Written("lb", nil, "a", AppliedState{})
	if got := c.Lookup(lb, "a").State; got.Omitted != "weights" || got.Hash != "" {
		t.Errorf("the cache has %+v", got)
	}
}
