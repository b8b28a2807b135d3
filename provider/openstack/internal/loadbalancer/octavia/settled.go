package octavia

import (
	"context"
	"fmt"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// listMaxAge is the result of [API.ListMaxAge] while few load balancers are busy.
const listMaxAge = 2 * time.Second

// Settled waits until a load balancer is ACTIVE or in ERROR, and returns it.
//
// It reads the load balancer when [API.NextLook] permits. All callers share one list of load
// balancers; a single caller reads only its own. The error wraps [ErrNotFound] if the load balancer
// is gone, which is the success of a deletion. It wraps [ErrPending] if the load balancer is
// PENDING and the next look would come after the limit. It is the error of ctx as soon as ctx ends.
// status is the last status that the caller has seen. It is returned with ErrPending if no look was
// made.
func (a *API) Settled(
	ctx context.Context, id string, status Status, limit time.Duration,
) (LoadBalancer, error) {
	defer a.wait()()
	began := a.config.Clock.Now()
	lb := LoadBalancer{ID: id, Status: status}
	// The status of a load balancer that fxccm has not changed may be stale.
	if !a.paces.knows(id) {
		var err error
		if lb, err = a.see(ctx, id, time.Time{}); err != nil {
			return LoadBalancer{}, err
		}
	}
	for lb.Status.Pending() {
		pause := a.NextLook(id, lb.Status)
		if pause > limit-a.config.Clock.Since(began) {
			return lb, fmt.Errorf("load balancer %s is %s: %w", id, lb.Status, ErrPending)
		}
		if err := a.pause(ctx, pause); err != nil {
			return LoadBalancer{}, err
		}
		var err error
		newer := later(began, a.config.Clock.Now().Add(-a.ListMaxAge()))
		if lb, err = a.see(ctx, id, newer); err != nil {
			return LoadBalancer{}, err
		}
	}
	return lb, nil
}

// Expected waits until the work of fxccm on the only busy load balancer should have ended, and
// reports whether it has waited. Then the next change replaces a look: Octavia refuses a change
// that comes too early. The caller passes that on to [API.Refused].
func (a *API) Expected(ctx context.Context, id string, limit time.Duration) (bool, error) {
	pause, known := a.paces.rest(id, a.config.Clock.Now())
	// Many load balancers make each change longer, and share the looks.
	if !known || pause > limit || a.sharesLists() {
		return false, nil
	}
	return true, a.pause(ctx, pause)
}

// Refused notes that Octavia was still at work when a change came.
func (a *API) Refused(id string) {
	a.paces.seeOne(a.config.Clock.Now(), id, LoadBalancer{Status: PendingUpdate})
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

// see returns a load balancer as of a list that was begun after newer, or reads it. With the zero
// time, the read begins after the call. While several callers wait, their shared list answers all
// of them.
func (a *API) see(ctx context.Context, id string, newer time.Time) (LoadBalancer, error) {
	list := a.LastList()
	if newer.IsZero() || list == nil || !list.Begun.After(newer) {
		if !a.othersWait() {
			return a.Get(ctx, id)
		}
		from := newer.Add(1)
		if newer.IsZero() {
			from = sharing.AfterNow(a.config.Clock)
		}
		var err error
		if list, err = a.list(ctx, from); err != nil {
			return LoadBalancer{}, err
		}
	}
	if lb, ok := list.ByID(id); ok {
		return lb, nil
	}
	if list.gone[id] {
		return LoadBalancer{}, fmt.Errorf("load balancer %s: %w", id, ErrNotFound)
	}
	// The list holds one project. The load balancer may be another project's.
	return a.Get(ctx, id)
}

func (a *API) pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := a.config.Clock.NewTimer(d)
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
