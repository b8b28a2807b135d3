package octavia

import (
	"context"
	"fmt"
	"time"
)

// listMaxAge is how old a list may be that tells whether a load balancer is ready, and the pause
// between looks.
const listMaxAge = 2 * time.Second

// Settled waits until a load balancer is ACTIVE or in ERROR, and returns it.
//
// It polls after the Pause of the Config, and then every two seconds: all callers share one list of
// load balancers. A single caller reads only its own, and sooner at first, because many changes
// take less than a second. The error wraps [ErrNotFound] if the load balancer is gone, which is the
// success of a deletion; [ErrPending] after the limit, with the load balancer as last seen; that of
// ctx as soon as ctx ends.
func (a *API) Settled(
	ctx context.Context, id string, limit time.Duration,
) (LoadBalancer, error) {
	defer a.wait()()
	began := a.clock.Now()
	first := &look{id: id}
	if before := min(a.before, limit); before > 0 {
		if err := a.pause(ctx, before); err != nil {
			return LoadBalancer{}, err
		}
		first.newer = began
	}
	lb, err := a.see(ctx, first)
	for looks := 0; err == nil && lb.Status.Pending(); looks++ {
		left := limit - a.clock.Since(began)
		if left <= 0 {
			return lb, fmt.Errorf("load balancer %s is %s: %w", id, lb.Status, ErrPending)
		}
		if err := a.pause(ctx, min(a.interval(looks), left)); err != nil {
			return LoadBalancer{}, err
		}
		lb, err = a.see(ctx, &look{id: id, newer: later(began, a.clock.Now().Add(-listMaxAge))})
	}
	if err != nil {
		return LoadBalancer{}, err
	}
	return lb, nil
}

// interval is the pause after so many looks.
func (a *API) interval(looks int) time.Duration {
	if looks > 1 || a.othersWait() {
		return listMaxAge
	}
	return listMaxAge >> (2 - looks)
}

func (a *API) wait() (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting--
	}
}

// see returns the one load balancer that a look is for.
func (a *API) see(ctx context.Context, l *look) (LoadBalancer, error) {
	if err := a.look(ctx, l); err != nil {
		return LoadBalancer{}, err
	}
	if l.one != nil {
		return *l.one, nil
	}
	if lb, ok := l.list.ByID(l.id); ok {
		return lb, nil
	}
	// The list is that of one project. The load balancer may be another project's.
	return a.Get(ctx, l.id)
}

func (a *API) pause(ctx context.Context, d time.Duration) error {
	timer := a.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.closing:
		return ErrClosed
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
