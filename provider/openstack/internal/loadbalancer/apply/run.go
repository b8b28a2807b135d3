package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// breath is the pause before a change that Octavia has refused twice, although the load balancer
// was ready: for there is more that can be busy than the load balancer tells.
const breath = time.Second

// run is a plan on its way.
type run struct {
	*Executor
	end    time.Time
	result Result
	// step is the one that is being taken.
	step plan.Step
	// tags are the load balancer's as the plan, or a step of it, has them. fresh: they were seen to
	// be so, and nothing was waited for since.
	tags  []string
	fresh bool
	// made are the ids of the listeners and pools that earlier steps have made, and group is that
	// of the security group.
	made  map[thing]string
	group string
}

func (r *run) left() time.Duration { return max(0, r.end.Sub(r.clock.Now())) }

// id is the load balancer's; "" for none.
func (r *run) id() string {
	if r.result.LoadBalancer == nil {
		return ""
	}
	return r.result.LoadBalancer.ID
}

func (r *run) status() octavia.Status {
	if r.result.LoadBalancer == nil {
		return ""
	}
	return r.result.LoadBalancer.Status
}

// mark notes what a change has brought about, until it is looked at again.
func (r *run) mark(status octavia.Status) {
	if r.result.LoadBalancer != nil {
		r.result.LoadBalancer.Status = status
	}
}

// change makes a request that changes the load balancer, or what is below it, as soon as Octavia
// has finished the previous change.
func (r *run) change(ctx context.Context, request func() error) error {
	return r.attempt(ctx, request, false)
}

// mend is change for what a load balancer in ERROR allows.
func (r *run) mend(ctx context.Context, request func() error) error {
	return r.attempt(ctx, request, true)
}

// attempt repeats the request while it is refused for the state of what it is for, and once if its
// outcome is unknown: after that, if it is.
func (r *run) attempt(ctx context.Context, request func() error, mends bool) error {
	for refusals := 0; ; refusals++ {
		err := r.settle(ctx, mends)
		if err == nil {
			err = request()
		}
		switch {
		case err == nil:
			r.mark(octavia.PendingUpdate)
			return nil
		case errors.Is(err, octavia.ErrNotFound):
			return fmt.Errorf("%w: %w", ErrGone, err)
		case errors.Is(err, octavia.ErrUncertain) && refusals == 0 && r.id() != "":
		case !errors.Is(err, octavia.ErrBusy) || r.id() == "":
			return err
		case refusals > 0 && r.left() == 0:
			return r.pending(err)
		case refusals > 0:
			if err := r.pause(ctx, min(breath, r.left())); err != nil {
				return err
			}
		}
		// Its state is unknown. It is read once, even after the timeout.
		r.mark(octavia.PendingUpdate)
	}
}

// settle waits until the load balancer is not PENDING. It reads only a load balancer that was last
// seen PENDING. In ERROR, Octavia accepts only repairs.
func (r *run) settle(ctx context.Context, mends bool) error {
	if r.status().Pending() {
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	if r.status() == octavia.InError && !mends {
		return fmt.Errorf("load balancer %s is %w", r.id(), ErrFailed)
	}
	return nil
}

func (r *run) wait(ctx context.Context) error {
	r.fresh = false
	lb, err := r.octavia.Settled(ctx, r.id(), r.left())
	switch {
	case errors.Is(err, octavia.ErrPending):
		r.mark(lb.Status)
		return r.pending(err)
	case err != nil:
		return err
	}
	r.result.LoadBalancer = &lb
	return nil
}

func (r *run) pending(err error) error {
	return &PendingError{LoadBalancerID: r.id(), Status: r.status(), Waits: r.step, err: err}
}

func (r *run) pause(ctx context.Context, pause time.Duration) error {
	timer := r.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The kinds of things that steps make, and later ones refer to.
const (
	aListener = "listener"
	aPool     = "pool"
)

// thing is what a step makes: its name is only that of one of its kind.
type thing struct{ kind, name string }

// find returns the id of what a step refers to; "" for the zero Ref.
func (r *run) find(kind string, ref plan.Ref) (string, error) {
	if ref == (plan.Ref{}) || ref.ID != "" {
		return ref.ID, nil
	}
	id, ok := r.made[thing{kind, ref.Made}]
	if !ok {
		return "", fmt.Errorf("no earlier step created %s %s", kind, ref.Made)
	}
	return id, nil
}

// loadBalancer returns the id of the load balancer that a step refers to.
func (r *run) loadBalancer(ref plan.Ref) string {
	if ref.ID != "" {
		return ref.ID
	}
	return r.id()
}
