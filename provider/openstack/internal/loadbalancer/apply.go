package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// apply takes the steps of a plan. It announces a created load balancer even after a failure.
func (r *reconciler) apply(
	ctx context.Context, want desired.State, is observed, todo plan.Plan,
) error {
	r.of.config.Logger.V(4).Info("Load balancer plan", "service",
		r.service.Namespace+"/"+r.service.Name, "plan", todo.String())
	created := r.found.balancer == nil
	done, err := r.of.run(ctx, todo, r.found.balancer, reconcileTimeout)
	r.found.adopt(done)
	r.remember(want, is, todo, done, err)
	r.state.inheritedVIP = inheritedVIP(r.state.inheritedVIP, todo, done, err)
	since := r.found.lastChange(r.service)
	if len(done.done) > 0 {
		// A plan of many steps takes many reconciles: after progress the pause starts over.
		since = r.of.config.Clock.Now()
	}
	if errors.Is(err, errChanged) && len(done.done) == 0 {
		// The load balancer may no longer be the Service's.
		return r.retry(err, since)
	}
	r.noteCreation(created, todo, err)
	if announced := r.announce(ctx); announced != nil {
		err = errors.Join(err, announced)
	}
	if err != nil {
		return r.retry(err, since)
	}
	lb := r.found.balancer
	switch {
	case lb.Status == octavia.PendingDelete:
		r.of.cache().Invalidate(lb.ID, r.identity.UID)
		return r.waitFor(lb, "is being deleted; a new one is created after that")
	case created:
		// A creation takes long: waiting for it here would keep other Services waiting.
		return r.waitFor(lb, "is %s", lb.Status)
	}
	return r.waitUntilActive(ctx)
}

// noteCreation remembers a created load balancer, so that the next reconciles need not read it.
func (r *reconciler) noteCreation(created bool, todo plan.Plan, err error) {
	r.state.creation = freshCreation{}
	if slices.ContainsFunc(todo.Steps, changesFloatingIP) {
		r.state.floatingIPs = knownFloatingIPs{}
	}
	if created && err == nil {
		r.state.creation.loadBalancer = r.found.balancer
		r.state.floatingIPs = knownFloatingIPs{
			query: r.found.query(r.identity, r.settings), all: r.found.floatingIPs,
		}
		r.state.floatingIPs.extend(r.of.config.Clock.Now(), r.mode)
	}
}

func changesFloatingIP(step plan.Step) bool {
	switch step.(type) {
	case plan.CreateFloatingIP, plan.AttachFloatingIP, plan.DetachFloatingIP, plan.DeleteFloatingIP,
		plan.TagFloatingIP:
		return true
	}
	return false
}

// remember caches the state after a run, also after one that ended because Octavia is at work.
func (r *reconciler) remember(
	want desired.State, is observed, todo plan.Plan, done runResult, err error,
) {
	lb := r.found.balancer
	r.noteWrite(lb, done, err)
	if lb == nil {
		return
	}
	state, contents := octavia.AppliedState{}, (*octavia.Contents)(nil)
	if err == nil || errors.Is(err, octavia.ErrPending) {
		switch {
		case is.LoadBalancer != nil:
			contents = plan.After(is.contents, done.done)
		case len(todo.Steps) > 0 && !want.Features.Serial:
			contents = plan.AfterCreation(want, lb.Made)
		}
	}
	if err == nil {
		state = octavia.AppliedState{Hash: is.hash, Omitted: omitted(want)}
	}
	r.of.cache().Written(lb.ID, contents, r.identity.UID, state)
}

// noteWrite discards lists from before the run's last change. After a failure it discards all lists
// from before its end, because a request that failed may have been carried out, or another client
// may have changed something.
func (r *reconciler) noteWrite(lb *octavia.LoadBalancer, done runResult, err error) {
	at := done.wroteAt
	if err != nil && !errors.Is(err, octavia.ErrPending) {
		at = r.of.config.Clock.Now()
	}
	if at.IsZero() {
		return
	}
	r.of.cache().NoteWrite(r.identity.UID, at)
	if lb != nil {
		r.of.cache().NoteWrite(lb.ID, at)
	}
}

// finish caches the state of a load balancer that is as desired, and announces it.
func (r *reconciler) finish(ctx context.Context, want desired.State, is observed) error {
	lb := r.found.balancer
	state := octavia.AppliedState{Hash: is.hash, Compared: r.deep, Omitted: omitted(want)}
	at := is.readAt
	if at.IsZero() {
		at = r.of.config.Clock.Now()
	}
	r.of.cache().Store(lb, is.contents, r.identity.UID, state, at)
	return r.announce(ctx)
}

// inheritedVIP returns the VIP of a load balancer that is to be recreated with its address; nil for
// none. Octavia deletes for longer than a reconcile waits, and then other creations may come first.
// So before, the VIP that the last reconcile returned, is kept.
func inheritedVIP(
	before *octavia.VIP, todo plan.Plan, done runResult, err error,
) *octavia.VIP {
	deleted := slices.ContainsFunc(done.done, isDeletion)
	deleting := done.loadBalancer != nil && done.loadBalancer.Status == octavia.PendingDelete
	queued := errors.Is(err, errQueued)
	for _, step := range todo.Steps[len(done.done):] {
		create, is := step.(plan.CreateLoadBalancer)
		switch {
		case is && deleted && (deleting || queued):
			return &create.LoadBalancer.VIP
		case is && queued:
			// The address in this step may be one that the user withdraws before the creation.
			return before
		}
	}
	return nil
}

// inherit sets the address of the replaced load balancer for the new one, if both are in the same
// place.
func (r *reconciler) inherit(want *desired.State) {
	vip, from := &want.LoadBalancer.VIP, r.state.inheritedVIP
	if from != nil && vip.Address == "" && vip.PortID == "" && vip.SubnetID == from.SubnetID &&
		vip.NetworkID == from.NetworkID {
		vip.Address = from.Address
	}
}

// waitUntilActive returns nil when the load balancer is ACTIVE.
func (r *reconciler) waitUntilActive(ctx context.Context) error {
	lb := r.found.balancer
	if !lb.Status.Pending() {
		return nil
	}
	is, err := r.of.config.Octavia.Settled(ctx, lb.ID, lb.Status, reconcileTimeout)
	switch {
	case errors.Is(err, octavia.ErrPending):
		return r.waitFor(lb, "is %s", is.Status)
	case err != nil:
		return err
	case is.Status != octavia.Active:
		return fmt.Errorf("load balancer %s is %s after it was changed", lb.ID, is.Status)
	}
	r.found.balancer = &is
	if changes := r.found.lostTags(r.identity); len(changes) > 0 {
		return retryAfter(minRetryDelay, "load balancer %s: %v: it lost %s", lb.ID, errChanged,
			strings.Join(changes, ", "))
	}
	r.of.cache().Confirm(&is, r.of.config.Clock.Now())
	return nil
}
