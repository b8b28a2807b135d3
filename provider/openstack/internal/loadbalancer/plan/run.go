package plan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/tracing"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

var (
	// ErrFailed means that the load balancer of a step is in ERROR.
	ErrFailed = errors.New("in ERROR")
	// ErrGone means that the object of a step no longer exists: a later plan will not refer to it.
	// A missing object that the configuration chooses is a refusal instead.
	ErrGone = errors.New("it no longer exists")
	// ErrChanged means that a step would replace the load balancer's tags, or delete it, although
	// it has changed since it was planned.
	ErrChanged = errors.New("it was changed concurrently")
	// errUnfinished means that members may not be changed yet.
	errUnfinished = errors.New("its members are being changed")
	// errNotDeleted means that Octavia still shows an object after its deletion.
	errNotDeleted = errors.New("is not deleted")
	// ErrQueued means that the load balancer was not requested yet, because others are being
	// created.
	ErrQueued = errors.New("queued: Octavia creates the load balancers of a project one at a time")
)

// maxMaking limits concurrent creations. Octavia holds the project's quota until the whole load
// balancer is in its database, so it creates one after the other. A creation whose response is lost
// in a longer queue may be duplicated.
const maxMaking = 4

// expectedTimeout is how long a step waits, beyond the timeout of the run, for the usual end of the
// previous step while no other load balancer is busy: then no other Service needs the worker soon.
const expectedTimeout = 10 * time.Second

// Result lists the effects of a run, even of one that fails.
type Result struct {
	// LoadBalancer is the created one, or the one that the run began with, as last seen. Its status
	// is PENDING after a step that changed it. It may be nil.
	LoadBalancer *octavia.LoadBalancer
	// FloatingIP was created or attached.
	FloatingIP *neutron.FloatingIP
	// Released are the IDs of the floating IPs that were detached or deleted.
	Released []string
	// Done are the completed steps. A [CreateMember] has the ID of its member.
	Done []Step
	// WroteAt is when the last request for a change ended; zero: none was made.
	WroteAt time.Time
}

// A Runner takes the steps of plans. It is safe for concurrent use, but two plans for one load
// balancer never run together.
type Runner struct {
	Octavia *octavia.API
	Neutron *neutron.API
	Clock   clock.Clock
	Logger  logr.Logger
	// making has an entry for each creation of a load balancer in flight.
	making chan struct{}
}

// NewRunner completes a Runner.
func NewRunner(r Runner) *Runner {
	r.making = make(chan struct{}, maxMaking)
	return &r
}

// Run takes the steps of a plan until one fails, and waits for Octavia for at most the timeout in
// total; then the next plan starts from the state that exists. lb is the load balancer of the plan,
// as last seen; nil for none.
//
// Octavia makes one change of a load balancer at a time, and refuses others until it has finished.
// So each step on the load balancer first waits for the end of the previous one, which takes from a
// second to minutes. If no other load balancer is busy and the usual duration is known, the step is
// tried after that time without a look. Steps with Neutron do not wait, except for those that close
// a port of members, and neither does a caller after the last step.
//
// The errors wrap, where the caller can act on it:
//
//   - [PendingError]: Octavia is at work, and the timeout is over.
//   - [ErrQueued]: no creation was requested, because others are in flight.
//   - [ErrFailed]: the load balancer is in ERROR, and the step does not repair that.
//   - [ErrGone]: the object of the step no longer exists.
//   - [ErrChanged]: the tags of the load balancer changed, and the step would replace them or
//     delete the load balancer; or it would delete a new listener or pool. A plan with such a step
//     then does nothing at all.
//   - the error of ctx. The request in flight may have been carried out.
func (runner *Runner) Run(
	ctx context.Context, p Plan, lb *octavia.LoadBalancer, timeout time.Duration,
) (Result, error) {
	r := &run{Runner: runner, end: runner.Clock.Now().Add(timeout), made: map[string]string{}}
	if lb != nil {
		seen := *lb
		r.result.LoadBalancer, r.tags = &seen, lb.Tags
		if slices.ContainsFunc(p.Steps, DeletesLoadBalancer) {
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
		}
		if err != nil {
			return r.result, &StepError{step, fmt.Errorf("%s: %w", step, err)}
		}
		r.result.Done = append(r.result.Done, r.step)
		r.Logger.Info("Load balancer step done", "step", step.String(), "loadBalancer", r.id())
	}
	return r.result, nil
}

// take takes a step in a span. To wait for Octavia is no failure of the span.
func (r *run) take(ctx context.Context, step Step) error {
	if !tracing.IsInside(ctx) {
		return step.take(ctx, r)
	}
	ctx, span := tracing.Start(ctx, strings.TrimPrefix(fmt.Sprintf("%T", step), "plan."),
		slog.String(tracing.Step, step.String()), slog.String(tracing.LoadBalancer, r.id()))
	err := errPanicked // until the step returns
	defer func() {
		if errors.Is(err, octavia.ErrPending) || errors.Is(err, ErrQueued) {
			span.End(nil, slog.String(tracing.Result, "retry"))
		} else {
			span.End(err)
		}
	}()
	err = step.take(ctx, r)
	return err
}

var errPanicked = errors.New("panic")

// StepError is the error of a step.
type StepError struct {
	Step Step
	err  error
}

func (e *StepError) Error() string { return e.err.Error() }

func (e *StepError) Unwrap() error { return e.err }

// PendingError means that a step would have to wait longer for Octavia than the run may. It is also
// an [octavia.ErrPending]. The status is ACTIVE if Octavia refuses the step all the same, as it
// does while a pool is in ERROR or is being changed.
type PendingError struct {
	LoadBalancerID string
	Status         octavia.Status
	err            error
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("load balancer %s is %s: %v", e.LoadBalancerID, e.Status, e.err)
}

func (e *PendingError) Is(target error) bool { return target == octavia.ErrPending }

func (e *PendingError) Unwrap() error { return e.err }

// refusalPause is the pause before a change that Octavia has refused twice although the load
// balancer was ready: an object can be busy without a change of the load balancer's status.
const refusalPause = time.Second

// run is a plan in progress.
type run struct {
	*Runner
	end    time.Time
	result Result
	// step is the current step.
	step Step
	// tags are the load balancer's, as the plan or one of its steps has them. fresh: the tags were
	// read, and no step has waited since.
	tags  []string
	fresh bool
	// written are the tags that a step has written. Another client that read them earlier may
	// replace them.
	written []string
	// parts are the load balancer's, if the plan deletes it; nil if they are unknown.
	parts []string
	// made holds the IDs of the objects that earlier steps have created, by the name in a Ref.
	made map[string]string
}

func (r *run) left() time.Duration { return max(0, r.end.Sub(r.Clock.Now())) }

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

// mark notes the effect of a change until the load balancer is read again.
func (r *run) mark(status octavia.Status) {
	if r.result.LoadBalancer != nil {
		r.result.LoadBalancer.Status = status
	}
}

// begun notes that Octavia has accepted a change.
func (r *run) begun(status octavia.Status) {
	r.mark(status)
	if r.id() != "" {
		r.Octavia.Begin(r.id(), status)
	}
}

// change sends a request that changes the load balancer or its parts, as soon as Octavia has
// finished the previous change.
func (r *run) change(ctx context.Context, request func() error) error {
	return r.attempt(ctx, request, false)
}

// repair is change for requests that Octavia accepts for a load balancer in ERROR.
func (r *run) repair(ctx context.Context, request func() error) error {
	return r.attempt(ctx, request, true)
}

// attempt repeats the request while Octavia refuses it because of a state. It repeats a request
// with an unknown outcome once, after reading the load balancer.
func (r *run) attempt(ctx context.Context, request func() error, mends bool) error {
	for refusals := 0; ; refusals++ {
		var isUnseen bool
		var err error
		if refusals == 0 && !mends {
			isUnseen, err = r.expected(ctx)
		}
		if err == nil && !isUnseen {
			err = r.settle(ctx, mends)
		}
		if err == nil {
			err = request()
			r.result.WroteAt = r.Clock.Now()
		}
		if isUnseen && errors.Is(err, octavia.ErrBusy) {
			r.Octavia.Refused(r.id())
		}
		switch {
		case err == nil:
			r.begun(octavia.PendingUpdate)
			return nil
		case errors.Is(err, octavia.ErrNotFound):
			return r.gone(err)
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
		// The state of the load balancer is unknown. It is read once, even after the timeout.
		r.mark(octavia.PendingUpdate)
	}
}

// expected waits until Octavia should have finished the previous change, and reports whether the
// next one may be tried without a look. After a change of tags a look is needed, because it shows
// lost tags.
func (r *run) expected(ctx context.Context) (bool, error) {
	if r.status() != octavia.PendingUpdate || len(r.written) > 0 || isFinal(r.step) {
		return false, nil
	}
	isOver, err := r.Octavia.Expected(ctx, r.id(), expectedTimeout)
	if isOver {
		r.fresh = false
	}
	return isOver, err
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
		return fmt.Errorf("the load balancer is %w", ErrFailed)
	}
	return nil
}

// finishMembers waits, if it must, until Octavia has carried out all changes. Where the provider
// reports that too early, the next plan continues, after a look at all parts.
func (r *run) finishMembers(ctx context.Context, must bool) error {
	switch {
	case !must || !r.status().Pending():
		return nil
	case r.result.LoadBalancer.ReportsEarly():
		return r.pending(errUnfinished)
	}
	return r.settle(ctx, true)
}

func (r *run) wait(ctx context.Context) error {
	r.fresh = false
	lb, err := r.Octavia.Settled(ctx, r.id(), r.status(), r.left())
	switch {
	case errors.Is(err, octavia.ErrPending):
		r.mark(lb.Status)
		return r.pending(err)
	case err != nil:
		return err
	}
	r.result.LoadBalancer = &lb
	for _, tag := range r.written {
		if !slices.Contains(lb.Tags, tag) {
			return fmt.Errorf("load balancer %s: %w: tag %s is lost", lb.ID, ErrChanged, tag)
		}
	}
	return nil
}

func (r *run) pending(err error) error {
	return &PendingError{r.id(), r.status(), err}
}

func (r *run) pause(ctx context.Context, pause time.Duration) error {
	timer := r.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns the ID of the object that a step refers to; "" for the zero Ref.
func (r *run) find(ref Ref) (string, error) {
	if ref == (Ref{}) || ref.ID != "" {
		return ref.ID, nil
	}
	id, ok := r.made[ref.Made]
	if !ok {
		return "", fmt.Errorf("no earlier step created %s", ref.Made)
	}
	return id, nil
}

// findBoth is find for the two objects of a step.
func (r *run) findBoth(one, other Ref) (first, second string, err error) {
	if first, err = r.find(one); err != nil {
		return "", "", err
	}
	second, err = r.find(other)
	return first, second, err
}

// queue waits for a free entry in making, and takes it.
func (r *run) queue(ctx context.Context) error {
	select {
	case r.making <- struct{}{}:
		return nil
	default:
	}
	if r.left() == 0 {
		return ErrQueued
	}
	timer := r.Clock.NewTimer(r.left())
	defer timer.Stop()
	select {
	case r.making <- struct{}{}:
		return nil
	case <-timer.C():
		return ErrQueued
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// seeTagsAhead is seeTags before the first step. A missing load balancer is no error, so that the
// other steps are taken.
func (r *run) seeTagsAhead(ctx context.Context) error {
	if err := r.seeTags(ctx); !errors.Is(err, octavia.ErrNotFound) {
		return err
	}
	return nil
}

// seeTags reads the load balancer, unless it has just done so. It returns ErrChanged if the tags
// are neither those of the plan nor one of the other lists, or if the load balancer to delete has a
// new part.
func (r *run) seeTags(ctx context.Context, or ...[]string) error {
	if r.fresh || r.id() == "" {
		return nil
	}
	lb, err := r.Octavia.Get(ctx, r.id())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(append(or, r.tags),
		func(tags []string) bool { return sameTags(tags, lb.Tags) }) {
		return fmt.Errorf("load balancer %s: %w", lb.ID, ErrChanged)
	}
	for _, part := range lb.Parts {
		if r.parts != nil && !slices.Contains(r.parts, part) {
			return fmt.Errorf("load balancer %s: %w: new listener or pool %s", lb.ID, ErrChanged,
				part)
		}
	}
	r.fresh = true
	return nil
}

// sameTags ignores the order of tags, which Octavia does not keep.
func sameTags(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// create sends a request for an object that later steps may refer to.
func (r *run) create(ctx context.Context, name string, request func() (string, error)) error {
	return r.change(ctx, func() error {
		id, err := request()
		if err == nil {
			r.made[name] = id
		}
		return err
	})
}

// changeIn is change with the ID of the pool that a step refers to.
func (r *run) changeIn(ctx context.Context, pool Ref, request func(id string) error) error {
	id, err := r.find(pool)
	if err != nil {
		return err
	}
	return r.change(ctx, func() error { return request(id) })
}

// withNeutron sends requests to Neutron.
func (r *run) withNeutron(request func() error) error {
	err := request()
	r.result.WroteAt = r.Clock.Now()
	if errors.Is(err, neutron.ErrNotFound) {
		return r.gone(err)
	}
	return err
}

// gone returns ErrGone for a missing object of the step, and other errors unchanged.
func (r *run) gone(err error) error {
	if f := failure.Of(err); f != nil && !f.IsGone(ChosenIn(r.step)...) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}

// release sends a request after which the floating IP no longer leads to the load balancer.
func (r *run) release(floatingIP string, request func() error) error {
	err := r.withNeutron(request)
	if err == nil {
		r.result.Released = append(r.result.Released, floatingIP)
	}
	return err
}

// vipPort returns the port of the load balancer's VIP.
func (r *run) vipPort(ref Ref) (string, error) {
	id, err := r.find(ref)
	if err != nil {
		return "", err
	}
	if lb := r.result.LoadBalancer; lb != nil && lb.ID == id && lb.VIP.PortID != "" {
		return lb.VIP.PortID, nil
	}
	return "", fmt.Errorf("the VIP port of load balancer %s is unknown", id)
}

// withGroup is withNeutron with the ID of the security group that a step refers to.
func (r *run) withGroup(ref Ref, request func(id string) error) error {
	id, err := r.find(ref)
	if err != nil {
		return err
	}
	return r.withNeutron(func() error { return request(id) })
}
