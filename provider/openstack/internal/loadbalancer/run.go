package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

var (
	// errFailed is of a step on a load balancer that is in ERROR.
	errFailed = errors.New("in ERROR")
	// errGone is of a step for what no longer exists.
	errGone = errors.New("it no longer exists")
	// errChanged is of a step that would replace the load balancer's tags, or delete it, when it is
	// not what the plan was made for.
	errChanged = errors.New("it was changed concurrently")
	// errNotDeleted is of what is there after Octavia has deleted it.
	errNotDeleted = errors.New("is not deleted")
	// errQueued is of a load balancer that is not begun yet, because others are being made. No
	// request was made for it.
	errQueued = errors.New("queued: Octavia creates the load balancers of a project one at a time")
)

// maxMaking limits concurrent creations. Octavia holds the quota of the project until all of a load
// balancer is in its database, so it creates one after the other. A creation whose response is lost
// in a longer queue may be duplicated.
const maxMaking = 4

// executor takes the steps of plans, many at a time, and keeps nothing between them. Two plans for
// one load balancer never run together.
//
// Octavia changes one thing of a load balancer at a time, and refuses the next change until then.
// So each step on the load balancer first waits for the end of its predecessor, which takes from a
// second to minutes. Steps with Neutron wait for nothing, and no caller waits after the last step.
type executor struct {
	octavia *octavia.API
	neutron *neutron.API
	clock   clock.Clock
	logger  logr.Logger
	trouble *trouble.Report
	// making has an entry for each creation of a load balancer in flight.
	making chan struct{}
}

func newExecutor(c Config) *executor {
	return &executor{
		octavia: c.Octavia, neutron: c.Neutron, clock: c.Clock, logger: c.Logger,
		trouble: c.Trouble, making: make(chan struct{}, maxMaking),
	}
}

// runResult is what a run has done, whatever its error.
type runResult struct {
	// loadBalancer is the created one, or the one that the run began with, as last seen. Its status
	// is PENDING after a step that changed it. It may be nil.
	loadBalancer *octavia.LoadBalancer
	// floatingIP was created or attached. Of an attached one only ID, Address and PortID are known.
	floatingIP *neutron.FloatingIP
	// done are the steps that were taken. A [plan.CreateMember] has the ID of its member.
	done []plan.Step
}

// run takes the steps of a plan until one fails, and waits for Octavia for at most the timeout in
// all; then the next plan starts from what exists. lb is what the plan was made for, as last seen;
// nil for none. The errors have in their chain, where the caller can act on it:
//
//   - [pendingError]: Octavia is at work, and the timeout is over.
//   - [errQueued]: no creation was requested, because others are in flight.
//   - [errFailed]: the load balancer is in ERROR, and the step does not repair that.
//   - [errGone]: the object of the step no longer exists.
//   - [errChanged]: the tags of the load balancer changed, and the step would replace them or
//     delete the load balancer; or it would delete a new listener or pool. A plan with such a step
//     then does nothing at all.
//   - [errNotDeleted]: Octavia still shows something after its deletion.
//   - the error of ctx. The request in flight may have been carried out.
func (e *executor) run(
	ctx context.Context, p plan.Plan, lb *octavia.LoadBalancer, timeout time.Duration,
) (runResult, error) {
	r := &run{executor: e, end: e.clock.Now().Add(timeout), made: map[thing]string{}}
	if lb != nil {
		seen := *lb
		r.result.loadBalancer, r.tags = &seen, lb.Tags
		if slices.ContainsFunc(p.Steps, isDeletion) {
			r.parts = lb.Parts
		}
	}
	for i, step := range p.Steps {
		r.step = step
		err := context.Cause(ctx)
		if err == nil && i == 0 && !isFinal(step) && slices.ContainsFunc(p.Steps, isFinal) {
			err = r.seeTagsAhead(ctx)
		}
		if err == nil {
			err = r.take(ctx, step)
			e.reportCreation(step, err)
		}
		if err != nil {
			return r.result, fmt.Errorf("step %d of %d (%s): %w", i+1, len(p.Steps), step, err)
		}
		r.result.done = append(r.result.done, r.step)
		e.logger.Info("Load balancer step done", "step", step.String(), "loadBalancer", r.id())
	}
	return r.result, nil
}

// pendingError is of a step that would have to wait longer for Octavia than the run may. It is
// [octavia.ErrPending], too. The status is ACTIVE if Octavia refuses the step all the same, as it
// does while a pool is in ERROR, or is being changed.
type pendingError struct {
	loadBalancerID string
	status         octavia.Status
	err            error
}

func (e *pendingError) Error() string {
	return fmt.Sprintf("load balancer %s is %s: %v", e.loadBalancerID, e.status, e.err)
}

func (e *pendingError) Is(target error) bool { return target == octavia.ErrPending }

func (e *pendingError) Unwrap() error { return e.err }

// refusalPause is the pause before a change that Octavia has refused twice, although the load
// balancer was ready: an object that its status does not cover can be busy.
const refusalPause = time.Second

// run is a plan on its way.
type run struct {
	*executor
	end    time.Time
	result runResult
	// step is the one that is being taken.
	step plan.Step
	// tags are the load balancer's as the plan, or a step of it, has them. fresh: they were seen to
	// be so, and nothing was waited for since.
	tags  []string
	fresh bool
	// written are the tags that a step has written. Another client that read them earlier may
	// replace them.
	written []string
	// parts are the load balancer's, if the plan deletes it; nil if they are unknown.
	parts []string
	// made are the ids of the listeners and pools that earlier steps have made, and group is that
	// of the security group.
	made  map[thing]string
	group string
}

func (r *run) left() time.Duration { return max(0, r.end.Sub(r.clock.Now())) }

// id is the load balancer's; "" for none.
func (r *run) id() string {
	if r.result.loadBalancer == nil {
		return ""
	}
	return r.result.loadBalancer.ID
}

func (r *run) status() octavia.Status {
	if r.result.loadBalancer == nil {
		return ""
	}
	return r.result.loadBalancer.Status
}

// mark notes what a change has brought about, until it is looked at again.
func (r *run) mark(status octavia.Status) {
	if r.result.loadBalancer != nil {
		r.result.loadBalancer.Status = status
	}
}

// begun notes that Octavia has accepted work.
func (r *run) begun(status octavia.Status) {
	r.mark(status)
	if r.id() != "" {
		r.octavia.Begin(r.id(), status)
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
			r.begun(octavia.PendingUpdate)
			return nil
		case errors.Is(err, octavia.ErrNotFound):
			return fmt.Errorf("%w: %w", errGone, err)
		case errors.Is(err, octavia.ErrUncertain) && refusals == 0 && r.id() != "":
		case !errors.Is(err, octavia.ErrBusy) || r.id() == "":
			return err
		case refusals > 0 && r.left() == 0:
			return r.pending(err)
		case refusals > 0:
			if err := r.pause(ctx, min(refusalPause, r.left())); err != nil {
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
		return fmt.Errorf("load balancer %s is %w", r.id(), errFailed)
	}
	return nil
}

func (r *run) wait(ctx context.Context) error {
	r.fresh = false
	lb, err := r.octavia.Settled(ctx, r.id(), r.status(), r.left())
	switch {
	case errors.Is(err, octavia.ErrPending):
		r.mark(lb.Status)
		return r.pending(err)
	case err != nil:
		return err
	}
	r.result.loadBalancer = &lb
	for _, tag := range r.written {
		if !slices.Contains(lb.Tags, tag) {
			return fmt.Errorf("load balancer %s: %w: tag %s is lost", lb.ID, errChanged, tag)
		}
	}
	return nil
}

func (r *run) pending(err error) error {
	return &pendingError{r.id(), r.status(), err}
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
