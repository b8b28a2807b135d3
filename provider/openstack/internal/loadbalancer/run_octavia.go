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
		return r.mend(ctx, func() error { return r.octavia.FailoverLoadBalancer(ctx, s.ID) })

	case plan.CreateListener:
		return r.createListener(ctx, s)
	case plan.UpdateListener:
		return r.updateListener(ctx, s)
	case plan.DeleteListener:
		return r.change(ctx, func() error { return r.octavia.DeleteListener(ctx, s.ID) })

	case plan.CreatePool:
		return r.createPool(ctx, s)
	case plan.UpdatePool:
		return r.change(ctx, func() error { return r.octavia.UpdatePool(ctx, s.ID, s.Pool) })
	case plan.DeletePool:
		return r.change(ctx, func() error { return r.octavia.DeletePool(ctx, s.ID) })

	case plan.CreateMonitor:
		return r.changePool(ctx, s.Pool,
			func(id string) error { return r.octavia.CreateMonitor(ctx, id, s.Monitor) })
	case plan.UpdateMonitor:
		return r.change(ctx, func() error { return r.octavia.UpdateMonitor(ctx, s.ID, s.Monitor) })
	case plan.DeleteMonitor:
		return r.change(ctx, func() error { return r.octavia.DeleteMonitor(ctx, s.ID) })

	case plan.SetMembers:
		return r.changePool(ctx, s.Pool,
			func(id string) error { return r.octavia.SetMembers(ctx, id, s.Members) })
	case plan.CreateMember:
		return r.createMember(ctx, s)
	case plan.UpdateMember:
		return r.change(ctx,
			func() error { return r.octavia.UpdateMember(ctx, s.PoolID, s.ID, s.Member) })
	case plan.DeleteMember:
		return r.change(ctx, func() error { return r.octavia.DeleteMember(ctx, s.PoolID, s.ID) })

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
	made, err := r.octavia.CreateLoadBalancer(ctx, s.LoadBalancer, ports)
	r.result.wroteAt = r.clock.Now()
	if err != nil {
		return err
	}
	r.result.loadBalancer, r.tags = &made, made.Tags
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
	timer := r.clock.NewTimer(r.left())
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
	lb, err := r.octavia.Get(ctx, r.id())
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
		return r.octavia.UpdateLoadBalancer(ctx, s.ID, s.Tags)
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
		return r.octavia.DeleteLoadBalancer(ctx, s.ID, s.Cascade)
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
		is, err = r.octavia.Contents(ctx, s.LoadBalancerID, octavia.InPart, time.Time{})
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

func (r *run) createListener(ctx context.Context, s plan.CreateListener) error {
	pool, err := r.find(aPool, s.Pool)
	if err != nil {
		return err
	}
	return r.make(ctx, aListener, s.Listener.Name, func() (string, error) {
		return r.octavia.CreateListener(ctx, r.loadBalancer(s.LoadBalancer), s.Listener, pool)
	})
}

func (r *run) updateListener(ctx context.Context, s plan.UpdateListener) error {
	pool, err := r.find(aPool, s.Pool)
	if err != nil {
		return err
	}
	return r.change(ctx,
		func() error { return r.octavia.UpdateListener(ctx, s.ID, s.Listener, pool) })
}

func (r *run) createPool(ctx context.Context, s plan.CreatePool) error {
	listener, err := r.find(aListener, s.Listener)
	if err != nil {
		return err
	}
	return r.make(ctx, aPool, s.Pool.Name, func() (string, error) {
		return r.octavia.CreatePool(ctx, r.loadBalancer(s.LoadBalancer), listener, s.Pool)
	})
}

func (r *run) createMember(ctx context.Context, s plan.CreateMember) error {
	return r.changePool(ctx, s.Pool, func(pool string) error {
		id, err := r.octavia.CreateMember(ctx, pool, s.Member)
		if err == nil {
			s.Member.ID = id
			r.step = s
		}
		return err
	})
}

// make sends a request whose result later steps may refer to.
func (r *run) make(
	ctx context.Context, kind, name string, request func() (id string, err error),
) error {
	return r.change(ctx, func() error {
		id, err := request()
		if err == nil {
			r.made[thing{kind, name}] = id
		}
		return err
	})
}

func (r *run) changePool(ctx context.Context, ref plan.Ref, request func(id string) error) error {
	id, err := r.find(aPool, ref)
	if err != nil {
		return err
	}
	return r.change(ctx, func() error { return request(id) })
}

// reportCreation reports whether a quota prevents a step.
func (e *executor) reportCreation(step plan.Step, err error) {
	if counted := countedBy(step); counted != "" {
		e.trouble.Creation(counted, err,
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
