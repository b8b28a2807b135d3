package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

var (
	// errFailed means that the load balancer of a step is in ERROR.
	errFailed = errors.New("in ERROR")
	// errGone means that the object of a step no longer exists.
	errGone = errors.New("it no longer exists")
	// errChanged means that a step would replace the load balancer's tags, or delete it, although
	// it has changed since it was planned.
	errChanged = errors.New("it was changed concurrently")
	// errNotDeleted means that Octavia still shows an object after its deletion.
	errNotDeleted = errors.New("is not deleted")
	// errQueued means that the load balancer was not requested yet, because others are being
	// created.
	errQueued = errors.New("queued: Octavia creates the load balancers of a project one at a time")
)

// maxMaking limits concurrent creations. Octavia holds the project's quota until the whole load
// balancer is in its database, so it creates one after the other. A creation whose response is lost
// in a longer queue may be duplicated.
const maxMaking = 4

// runResult lists the effects of a run, even of one that fails.
type runResult struct {
	// loadBalancer is the created one, or the one that the run began with, as last seen. Its status
	// is PENDING after a step that changed it. It may be nil.
	loadBalancer *octavia.LoadBalancer
	// floatingIP was created or attached. Of an attached one only ID, Address and PortID are known.
	floatingIP *neutron.FloatingIP
	// done are the completed steps. A [plan.CreateMember] has the ID of its member.
	done []plan.Step
	// wroteAt is when the last request for a change ended; zero: none was made.
	wroteAt time.Time
}

// run takes the steps of a plan until one fails, and waits for Octavia for at most the timeout in
// total; then the next plan starts from the state that exists. lb is the load balancer of the plan,
// as last seen; nil for none. Two plans for one load balancer never run together.
//
// Octavia makes one change of a load balancer at a time, and refuses others until it has finished.
// So each step on the load balancer first waits for the end of the previous one, which takes from a
// second to minutes. If no other load balancer is busy and the usual duration is known, the step is
// tried after that time without a look. Steps with Neutron do not wait, and neither does a caller
// after the last step.
//
// The errors wrap, where the caller can act on it:
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
func (l *LoadBalancers) run(
	ctx context.Context, p plan.Plan, lb *octavia.LoadBalancer, timeout time.Duration,
) (runResult, error) {
	r := &run{
		Config: l.config, making: l.making, end: l.config.Clock.Now().Add(timeout),
		made: map[string]string{},
	}
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
			r.reportCreation(step, err)
		}
		if err != nil {
			return r.result, fmt.Errorf("step %d of %d (%s): %w", i+1, len(p.Steps), step, err)
		}
		r.result.done = append(r.result.done, r.step)
		r.Logger.Info("Load balancer step done", "step", step.String(), "loadBalancer", r.id())
	}
	return r.result, nil
}

// pendingError means that a step would have to wait longer for Octavia than the run may. It is also
// an [octavia.ErrPending]. The status is ACTIVE if Octavia refuses the step all the same, as it
// does while a pool is in ERROR or is being changed.
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

// refusalPause is the pause before a change that Octavia has refused twice although the load
// balancer was ready: an object can be busy without a change of the load balancer's status.
const refusalPause = time.Second

// run is a plan in progress.
type run struct {
	Config
	making chan struct{}
	end    time.Time
	result runResult
	// step is the current step.
	step plan.Step
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

// mark notes the effect of a change until the load balancer is read again.
func (r *run) mark(status octavia.Status) {
	if r.result.loadBalancer != nil {
		r.result.loadBalancer.Status = status
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

// mend is change for requests that Octavia accepts for a load balancer in ERROR.
func (r *run) mend(ctx context.Context, request func() error) error {
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
			r.result.wroteAt = r.Clock.Now()
		}
		if isUnseen && errors.Is(err, octavia.ErrBusy) {
			r.Octavia.Refused(r.id())
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
		return fmt.Errorf("load balancer %s is %w", r.id(), errFailed)
	}
	return nil
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
func (r *run) find(ref plan.Ref) (string, error) {
	if ref == (plan.Ref{}) || ref.ID != "" {
		return ref.ID, nil
	}
	id, ok := r.made[ref.Made]
	if !ok {
		return "", fmt.Errorf("no earlier step created %s", ref.Made)
	}
	return id, nil
}

// findBoth is find for the two objects of a step.
func (r *run) findBoth(one, other plan.Ref) (first, second string, err error) {
	if first, err = r.find(one); err != nil {
		return "", "", err
	}
	second, err = r.find(other)
	return first, second, err
}

// take takes a step.
func (r *run) take(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.CreateLoadBalancer:
		return r.createLoadBalancer(ctx, s)
	case plan.UpdateLoadBalancer:
		return r.updateLoadBalancer(ctx, s)
	case plan.DeleteLoadBalancer:
		return r.deleteLoadBalancer(ctx, s)
	case plan.FailoverLoadBalancer:
		return r.mend(ctx, func() error { return r.Octavia.FailoverLoadBalancer(ctx, s.ID) })

	case plan.CreateListener:
		lb, pool, err := r.findBoth(s.LoadBalancer, s.Pool)
		if err != nil {
			return err
		}
		return r.create(ctx, s.Listener.Name, func() (string, error) {
			return r.Octavia.CreateListener(ctx, lb, s.Listener, pool)
		})
	case plan.UpdateListener:
		return r.changeIn(ctx, s.Pool, func(pool string) error {
			return r.Octavia.UpdateListener(ctx, s.ID, s.Listener, pool)
		})
	case plan.DeleteListener:
		return r.change(ctx, func() error { return r.Octavia.DeleteListener(ctx, s.ID) })

	case plan.CreatePool:
		lb, listener, err := r.findBoth(s.LoadBalancer, s.Listener)
		if err != nil {
			return err
		}
		return r.create(ctx, s.Pool.Name, func() (string, error) {
			return r.Octavia.CreatePool(ctx, lb, listener, s.Pool)
		})
	case plan.UpdatePool:
		return r.change(ctx, func() error { return r.Octavia.UpdatePool(ctx, s.ID, s.Pool) })
	case plan.DeletePool:
		return r.change(ctx, func() error { return r.Octavia.DeletePool(ctx, s.ID) })

	case plan.CreateMonitor:
		return r.changeIn(ctx, s.Pool,
			func(pool string) error { return r.Octavia.CreateMonitor(ctx, pool, s.Monitor) })
	case plan.UpdateMonitor:
		return r.change(ctx, func() error { return r.Octavia.UpdateMonitor(ctx, s.ID, s.Monitor) })
	case plan.DeleteMonitor:
		return r.change(ctx, func() error { return r.Octavia.DeleteMonitor(ctx, s.ID) })

	case plan.SetMembers:
		return r.changeIn(ctx, s.Pool,
			func(pool string) error { return r.Octavia.SetMembers(ctx, pool, s.Members) })
	case plan.CreateMember:
		return r.changeIn(ctx, s.Pool, func(pool string) (err error) {
			s.Member.ID, err = r.Octavia.CreateMember(ctx, pool, s.Member)
			r.step = s
			return err
		})
	case plan.UpdateMember:
		return r.change(ctx,
			func() error { return r.Octavia.UpdateMember(ctx, s.PoolID, s.ID, s.Member) })
	case plan.DeleteMember:
		return r.change(ctx, func() error { return r.Octavia.DeleteMember(ctx, s.PoolID, s.ID) })

	case plan.SeeDeleted:
		return r.seeDeleted(ctx, s)
	}
	return r.takeWithNeutron(ctx, step)
}

// createLoadBalancer first waits until a load balancer that is being replaced is gone, because the
// new one may have its address.
func (r *run) createLoadBalancer(ctx context.Context, s plan.CreateLoadBalancer) error {
	if r.status() == octavia.PendingDelete {
		switch err := r.settle(ctx, false); {
		case errors.Is(err, octavia.ErrNotFound):
			r.result.loadBalancer = nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("load balancer %s is %s after its deletion", r.id(), r.status())
		}
	}
	ports := s.Ports
	if s.Bare {
		ports = nil
	}
	if err := r.queue(ctx); err != nil {
		return err
	}
	defer func() { <-r.making }()
	made, err := r.Octavia.CreateLoadBalancer(ctx, s.LoadBalancer, ports)
	r.result.wroteAt = r.Clock.Now()
	if err != nil {
		return err
	}
	r.result.loadBalancer, r.tags = &made, made.Tags
	r.made[plan.LoadBalancerRef().Made] = made.ID
	r.begun(made.Status)
	return nil
}

// queue waits for a free entry in making, and takes it.
func (r *run) queue(ctx context.Context) error {
	select {
	case r.making <- struct{}{}:
		return nil
	default:
	}
	if r.left() == 0 {
		return errQueued
	}
	timer := r.Clock.NewTimer(r.left())
	defer timer.Stop()
	select {
	case r.making <- struct{}{}:
		return nil
	case <-timer.C():
		return errQueued
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isFinal reports whether the step changes the whole load balancer irreversibly: a tag write
// replaces the whole list. Tags of other clients since the last read would be lost, and the load
// balancer may be another cluster's by now.
func isFinal(step plan.Step) bool {
	switch step.(type) {
	case plan.UpdateLoadBalancer, plan.DeleteLoadBalancer:
		return true
	}
	return false
}

func isDeletion(step plan.Step) bool {
	_, is := step.(plan.DeleteLoadBalancer)
	return is
}

// seeTagsAhead is seeTags before the first step. A missing load balancer is no error, so that the
// other steps are taken.
func (r *run) seeTagsAhead(ctx context.Context) error {
	if err := r.seeTags(ctx); !errors.Is(err, octavia.ErrNotFound) {
		return err
	}
	return nil
}

// seeTags reads the load balancer, unless it has just done so. It returns errChanged if the tags
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
		return fmt.Errorf("load balancer %s: %w", lb.ID, errChanged)
	}
	for _, part := range lb.Parts {
		if r.parts != nil && !slices.Contains(r.parts, part) {
			return fmt.Errorf("load balancer %s: %w: new listener or pool %s", lb.ID, errChanged,
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

func (r *run) updateLoadBalancer(ctx context.Context, s plan.UpdateLoadBalancer) error {
	err := r.change(ctx, func() error {
		// The new tags exist already if an earlier request succeeded and its response was lost.
		if err := r.seeTags(ctx, s.Tags); err != nil {
			return err
		}
		return r.Octavia.UpdateLoadBalancer(ctx, s.ID, s.Tags)
	})
	if err == nil {
		r.tags, r.written = s.Tags, s.Tags
	}
	return err
}

// deleteLoadBalancer succeeds if the load balancer is gone, or is about to be.
func (r *run) deleteLoadBalancer(ctx context.Context, s plan.DeleteLoadBalancer) error {
	if r.status().Gone() {
		return nil
	}
	err := r.mend(ctx, func() error {
		if err := r.seeTags(ctx); err != nil {
			return err
		}
		return r.Octavia.DeleteLoadBalancer(ctx, s.ID, s.Cascade)
	})
	var pending *pendingError
	switch {
	case err == nil:
		r.begun(octavia.PendingDelete)
	case errors.Is(err, errGone), errors.As(err, &pending) &&
		pending.status == octavia.PendingDelete:
		r.mark(octavia.PendingDelete)
	default:
		return err
	}
	return nil
}

// seeDeleted waits until Octavia has finished, and verifies the deletions.
func (r *run) seeDeleted(ctx context.Context, s plan.SeeDeleted) error {
	err := r.settle(ctx, false)
	var is octavia.Contents
	if err == nil {
		is, err = r.Octavia.Contents(ctx, s.LoadBalancerID, octavia.InPart, time.Time{})
	}
	if errors.Is(err, octavia.ErrNotFound) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	var left []error
	for _, l := range is.Listeners {
		if slices.Contains(s.IDs, l.ID) {
			left = append(left,
				fmt.Errorf("listener %s (%s, %s) %w", l.ID, l.Name, l.Status, errNotDeleted))
		}
	}
	for _, p := range is.Pools {
		if slices.Contains(s.IDs, p.ID) {
			left = append(left,
				fmt.Errorf("pool %s (%s, %s) %w", p.ID, p.Name, p.Status, errNotDeleted))
		}
	}
	return errors.Join(append(left, err)...)
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
func (r *run) changeIn(ctx context.Context, pool plan.Ref, request func(id string) error) error {
	id, err := r.find(pool)
	if err != nil {
		return err
	}
	return r.change(ctx, func() error { return request(id) })
}

// takeWithNeutron takes a step with Neutron. It does not wait, because a VIP port exists as soon as
// its load balancer does.
func (r *run) takeWithNeutron(ctx context.Context, step plan.Step) error {
	err := r.askNeutron(ctx, step)
	r.result.wroteAt = r.Clock.Now()
	if errors.Is(err, neutron.ErrNotFound) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

func (r *run) askNeutron(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.CreateFloatingIP:
		return r.createFloatingIP(ctx, s)
	case plan.AttachFloatingIP:
		return r.attachFloatingIP(ctx, s)
	case plan.DetachFloatingIP:
		return r.Neutron.DetachFloatingIP(ctx, s.ID)
	case plan.DeleteFloatingIP:
		return r.Neutron.DeleteFloatingIP(ctx, s.ID)
	case plan.TagFloatingIP:
		return r.Neutron.TagFloatingIP(ctx, s.ID, s.Tags)

	case plan.CreateSecurityGroup:
		made, err := r.Neutron.CreateSecurityGroup(ctx, s.Group)
		r.made[plan.GroupRef().Made] = made.ID
		return err
	case plan.TagSecurityGroup:
		return r.Neutron.TagSecurityGroup(ctx, s.ID, s.Tags)
	case plan.DeleteSecurityGroup:
		return r.Neutron.DeleteSecurityGroup(ctx, s.ID)
	case plan.CreateRule:
		return r.withGroup(s.Group,
			func(id string) error { return r.Neutron.CreateRule(ctx, id, s.Rule) })
	case plan.DeleteRule:
		return r.Neutron.DeleteRule(ctx, s.ID)
	case plan.AddGroup:
		return r.withGroup(s.Group,
			func(id string) error { return r.Neutron.AddGroup(ctx, s.Port, id) })
	case plan.RemoveGroup:
		return r.Neutron.RemoveGroup(ctx, s.Port, s.GroupID)
	}
	return fmt.Errorf("unknown step %T", step)
}

// createFloatingIP tries the subnets in their order until one has a free address.
func (r *run) createFloatingIP(ctx context.Context, s plan.CreateFloatingIP) error {
	port := ""
	if s.LoadBalancer != (plan.Ref{}) {
		var err error
		if port, err = r.vipPort(s.LoadBalancer); err != nil {
			return err
		}
	}
	subnets := s.Wanted.SubnetIDs
	if len(subnets) == 0 {
		subnets = []string{""} // Neutron chooses
	}
	var err error
	for _, subnet := range subnets {
		var made neutron.FloatingIP
		made, err = r.Neutron.CreateFloatingIP(ctx, s.Wanted, subnet, port)
		if made.ID != "" {
			r.result.floatingIP = &made
		}
		if !errors.Is(err, neutron.ErrNoAddress) {
			return err
		}
	}
	return err
}

// attachFloatingIP attaches an existing floating IP, or the one that an earlier step has created.
func (r *run) attachFloatingIP(ctx context.Context, s plan.AttachFloatingIP) error {
	port, err := r.vipPort(s.LoadBalancer)
	if err != nil {
		return err
	}
	attached := neutron.FloatingIP{ID: s.ID, Address: s.Address}
	if s.ID == "" {
		if r.result.floatingIP == nil {
			return errors.New("no earlier step created the floating IP")
		}
		attached = *r.result.floatingIP
	}
	if err := r.Neutron.AttachFloatingIP(ctx, attached.ID, port); err != nil {
		return err
	}
	attached.PortID = port
	r.result.floatingIP = &attached
	return nil
}

// vipPort returns the port of the load balancer's VIP.
func (r *run) vipPort(ref plan.Ref) (string, error) {
	id, err := r.find(ref)
	if err != nil {
		return "", err
	}
	if lb := r.result.loadBalancer; lb != nil && lb.ID == id && lb.VIP.PortID != "" {
		return lb.VIP.PortID, nil
	}
	return "", fmt.Errorf("the VIP port of load balancer %s is unknown", id)
}

func (r *run) withGroup(ref plan.Ref, request func(id string) error) error {
	id, err := r.find(ref)
	if err != nil {
		return err
	}
	return request(id)
}

// reportCreation reports whether a quota prevents a step.
func (r *run) reportCreation(step plan.Step, err error) {
	if counted := countedBy(step); counted != "" {
		r.Trouble.Creation(counted, err,
			errors.Is(err, octavia.ErrQuota) || errors.Is(err, neutron.ErrQuota))
	}
}

// countedBy returns the quota that a step counts against; "" for none.
func countedBy(step plan.Step) string {
	switch step.(type) {
	case plan.CreateLoadBalancer:
		return "load balancers"
	case plan.CreateListener:
		return "listeners"
	case plan.CreatePool:
		return "pools"
	case plan.CreateMember, plan.SetMembers:
		return "members"
	case plan.CreateMonitor:
		return "health monitors"
	case plan.CreateFloatingIP:
		return "floating IPs"
	case plan.CreateSecurityGroup:
		return "security groups"
	case plan.CreateRule:
		return "security group rules"
	}
	return ""
}
