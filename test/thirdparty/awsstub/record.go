package awsstub

import (
	"context"
	"fmt"
)

// A Request is one request, in the order of arrival.
type Request struct {
	// Action is the operation: DescribeInstances, CreateLoadBalancer, …
	Action string
	// AccessKey is the ID of the key that signed it.
	AccessKey string
	// Code is the code of the error in the answer, or empty.
	Code string
	// Done reports that the stub has answered. An abandoned request has changed nothing.
	Done bool
	// Abandoned reports that the client disconnected before the answer.
	Abandoned bool
}

func (r Request) String() string {
	switch {
	case r.Abandoned:
		return fmt.Sprintf("%s by %s, abandoned", r.Action, r.AccessKey)
	case r.Code != "":
		return fmt.Sprintf("%s by %s: %s", r.Action, r.AccessKey, r.Code)
	}
	return fmt.Sprintf("%s by %s", r.Action, r.AccessKey)
}

// Requests returns all requests that have arrived.
func (c *Cloud) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := make([]Request, len(c.requests))
	for i, r := range c.requests {
		copied[i] = *r
	}
	return copied
}

// Unknown returns the requests that the stub does not support.
func (c *Cloud) Unknown() []Request {
	var unknown []Request
	for _, r := range c.Requests() {
		if r.Code == invalidAction {
			unknown = append(unknown, r)
		}
	}
	return unknown
}

// WaitUntil waits until cond is true for the requests.
func (c *Cloud) WaitUntil(ctx context.Context, cond func([]Request) bool) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if cond(c.Requests()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("timeout while waiting for requests; the cloud received %v",
				c.Requests())
		}
	}
}

// hold delays the answers to requests.
type hold struct{ released chan struct{} }

// Hold delays requests for the action, before they change anything, until the caller calls release
// or the client disconnects.
func (c *Cloud) Hold(action string) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &hold{released: make(chan struct{})}
	c.holds[action] = h
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.holds[action] == h {
			delete(c.holds, action)
			close(h.released)
		}
	}
}

// arrive records a request, and returns the hold that delays it, or nil.
func (c *Cloud) arrive(r *Request) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	c.notify()
	return c.holds[r.Action]
}

// wait reports whether the client is still connected.
func (h *hold) wait(ctx context.Context) bool {
	if h == nil {
		return true
	}
	select {
	case <-h.released:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Cloud) abandon(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Abandoned = true
	c.notify()
}

// notify is called with the lock held.
func (c *Cloud) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}
