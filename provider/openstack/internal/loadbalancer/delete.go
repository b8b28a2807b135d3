package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fxccm/fxccm/internal/tracing"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/recent"
)

// GetLoadBalancer implements cloudprovider.LoadBalancer. It reports that a load balancer exists
// while any of its resources do: controllers delete only what exists, and floating IPs and security
// groups outlive a load balancer that another client deleted. The annotations of a Service that
// stays count, too: the CCM may have been killed after it deleted the load balancer.
func (l *LoadBalancers) GetLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	status, exists, err := l.get(ctx, clusterName, service)
	return status, exists, events.Explain(err)
}

func (l *LoadBalancers) get(
	ctx context.Context, clusterName string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	r, err := l.begin(ctx, request{cluster: clusterName, service: service}, true)
	if err != nil {
		return nil, false, err
	}
	defer r.close()
	if err := r.awaiting(ctx, "Octavia", r.findAny); err != nil {
		return nil, false, err
	}
	switch {
	case r.found.balancer != nil:
		if err := r.readAllFloatingIPs(ctx); err != nil {
			return nil, false, err
		}
		return r.status(), true, nil
	case r.found.deleting != nil:
		return &v1.LoadBalancerStatus{}, true, nil
	}
	is, err := r.observeBeside(ctx)
	if err != nil {
		return nil, false, err
	}
	left := len(is.FloatingIPs) > 0 || is.SecurityGroup != nil || isStillMarked(service)
	if !left {
		// No deletion follows, which would report them.
		r.reportStrangers()
	}
	if !left && !requestsLoadBalancer(service) {
		// The service controller does not call EnsureLoadBalancerDeleted then: the Service was
		// refused, or Octavia has completed the deletion.
		l.Forget(service.UID)
	}
	return &v1.LoadBalancerStatus{}, left, nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. It returns when all resources of
// the Service are deleted, because no later reconcile would look for them.
func (l *LoadBalancers) EnsureLoadBalancerDeleted(
	ctx context.Context, clusterName string, service *v1.Service,
) (err error) {
	defer l.measure("loadbalancer_delete", &err)()
	r, err := l.begin(ctx, request{cluster: clusterName, service: service}, true)
	if err != nil {
		return err
	}
	defer r.close()
	l.tracked.forget(service.UID)
	l.states.set(service.UID, r.state)
	ctx = recent.With(ctx, &r.state.requests)
	if err := r.delete(ctx); err != nil {
		err = r.refused(err)
		r.report(ctx, err)
		return r.explain(err)
	}
	if err := r.disown(ctx); err != nil {
		return events.Explain(err)
	}
	l.Forget(service.UID)
	return nil
}

// findAny finds the Service's load balancer, whether the Service requests one or not.
func (r *reconciler) findAny(ctx context.Context) (err error) {
	ctx, span := tracing.Start(ctx, "find")
	defer func() { span.End(err) }()
	if err := r.identify(ctx); err != nil {
		return err
	}
	r.settings, _ = settings.Of(r.service, r.of.config.Defaults)
	var refused *events.Notice
	if err := r.lookUp(ctx); errors.As(err, &refused) {
		// The annotation names a load balancer of another Service.
		r.found.claim = claim{}
	} else if err != nil {
		return err
	}
	region := r.removedRegion()
	if region != "" && r.found.balancer == nil && r.found.deleting == nil {
		return fmt.Errorf("%s: annotation %s names the region %q, which cloud.conf does not have; "+
			"add it again, or remove the annotation if the load balancer is deleted", apiServer,
			settings.AnnotationLoadBalancerRegion, region)
	}
	return nil
}

// delete deletes the resources of the Service, and waits until they are gone.
func (r *reconciler) delete(ctx context.Context) error {
	if err := r.awaiting(ctx, "Octavia", r.findAny); err != nil {
		return err
	}
	r.reportStrangers()
	end := r.of.config.Clock.Now().Add(deleteTimeout)
	if lb := r.found.deleting; lb != nil && r.found.balancer == nil {
		// The reconcile that deleted the load balancer has removed the rest, unless it was
		// interrupted. So the rest is read only after the load balancer is gone.
		if err := r.waitUntilGone(ctx, lb, end); err != nil {
			return err
		}
		r.found.deleting = nil
	}
	return r.deleteRest(ctx, end)
}

// deleteRest observes the resources of the Service and deletes them.
func (r *reconciler) deleteRest(ctx context.Context, end time.Time) error {
	var is plan.Observed
	if err := tracing.Do(ctx, "observe", func(ctx context.Context) (err error) {
		is, err = r.observeBeside(ctx)
		return err
	}); err != nil {
		return err
	}
	if err := r.deleteObserved(ctx, is, end); err != nil {
		return err
	}
	return r.deleteDuplicates(ctx)
}

// deleteDuplicates deletes the duplicates of a load balancer, after the first one is in service or
// deleted.
func (r *reconciler) deleteDuplicates(ctx context.Context) error {
	for i := range r.found.duplicates {
		duplicate := &r.found.duplicates[i]
		r.of.config.Logger.Info("Deleting a duplicate load balancer", "service",
			r.identity.Namespace+"/"+r.identity.Name, "loadBalancer", duplicate.ID)
		if err := r.deleteDuplicate(ctx, duplicate); err != nil {
			return fmt.Errorf("delete duplicate load balancer %s: %w", duplicate.ID, err)
		}
	}
	return nil
}

// deleteDuplicate deletes one duplicate and its floating IPs.
func (r *reconciler) deleteDuplicate(ctx context.Context, lb *octavia.LoadBalancer) error {
	other := *r
	other.found.claim, other.found.floatingIPs = claim{balancer: lb, role: plan.Owner}, nil
	floating, err := r.of.config.Neutron.FloatingIPsOf(ctx,
		other.found.query(r.identity, r.settings), time.Time{})
	if err != nil {
		return err
	}
	is := plan.Observed{LoadBalancer: lb, Role: plan.Owner}
	for _, ip := range floating {
		if ip.PortID == lb.VIP.PortID {
			is.FloatingIPs = append(is.FloatingIPs, ip)
		}
	}
	return other.deleteObserved(ctx, is, r.of.config.Clock.Now().Add(deleteTimeout))
}

// deleteObserved deletes the observed resources, and waits until end.
func (r *reconciler) deleteObserved(
	ctx context.Context, is plan.Observed, end time.Time,
) error {
	err := r.allContents(ctx, &is)
	if err == nil {
		err = r.waitForParts(is)
	}
	if err != nil {
		return err
	}
	todo := r.removal(is)
	r.notes.silent = false
	blocked := r.notes.tellPlan(todo.Notices)
	lb := is.LoadBalancer
	r.of.config.Logger.V(4).Info("Load balancer deletion plan", "service",
		r.service.Namespace+"/"+r.service.Name, "plan", todo.String())
	done, err := r.of.runner.Run(ctx, todo, lb, max(0, end.Sub(r.of.config.Clock.Now())))
	r.noteWrite(lb, done, err)
	if err != nil {
		return r.retry(err, r.found.lastChange(r.service))
	}
	gone := r.found.deleting
	if slices.ContainsFunc(done.Done, plan.DeletesLoadBalancer) {
		gone = lb
	}
	if gone == nil {
		return errors.Join(blocked, r.seeUntagged(ctx, done))
	}
	if err := r.waitUntilGone(ctx, gone, end); err != nil {
		return err
	}
	return blocked
}

// seeUntagged reads the load balancer that the Service has left. Another cluster that read the tags
// earlier may write the Service's tags again, and no later reconcile would remove them.
func (r *reconciler) seeUntagged(ctx context.Context, done plan.Result) error {
	lb := done.LoadBalancer
	untags := func(step plan.Step) bool { _, is := step.(plan.UpdateLoadBalancer); return is }
	if !slices.ContainsFunc(done.Done, untags) {
		return nil
	}
	now, err := r.of.config.Octavia.Settled(ctx, lb.ID, lb.Status, deleteTimeout)
	switch {
	case errors.Is(err, octavia.ErrNotFound):
		return nil
	case errors.Is(err, octavia.ErrPending):
		return r.waitFor(lb, "is %s", now.Status)
	case err != nil:
		return err
	case slices.Contains(now.Tags, r.identity.ServiceTag()):
		return retryAfter(minRetryDelay, "load balancer %s: %v: it has the Service's tags again",
			lb.ID, plan.ErrChanged)
	}
	return nil
}

// waitUntilGone returns nil when a load balancer that is being deleted is gone. It waits until end.
func (r *reconciler) waitUntilGone(
	ctx context.Context, lb *octavia.LoadBalancer, end time.Time,
) error {
	last, err := r.of.config.Octavia.Settled(ctx, lb.ID, octavia.PendingDelete,
		max(0, end.Sub(r.of.config.Clock.Now())))
	switch {
	case errors.Is(err, octavia.ErrNotFound):
		return nil
	case errors.Is(err, octavia.ErrPending):
		return r.waitFor(lb, "is being deleted")
	case err != nil:
		return err
	}
	return fmt.Errorf("load balancer %s is %s after its deletion", lb.ID, last.Status)
}

func (r *reconciler) removal(is plan.Observed) plan.Plan {
	return plan.Removal(r.identity, is, plan.RemovalOptions{
		KeepFloatingIP: r.settings.KeepFloatingIP, Cascade: r.settings.CascadeDelete,
		Tags: r.found.hasTags(), Moves: r.found.whyLeaves != "",
	})
}

// isStillMarked reports whether a Service that requests no load balancer still has the address or
// the condition of one.
func isStillMarked(service *v1.Service) bool {
	return service.DeletionTimestamp == nil && !requestsLoadBalancer(service) &&
		(service.Annotations[settings.AnnotationLoadBalancerAddress] != "" ||
			meta.FindStatusCondition(service.Status.Conditions, ConditionType) != nil)
}

// disown removes the annotations and the address from a Service that stays.
func (r *reconciler) disown(ctx context.Context) error {
	if r.service.DeletionTimestamp != nil {
		return nil
	}
	r.publishCondition(ctx, nil)
	gone := map[string]*string{settings.AnnotationLoadBalancerAddress: nil}
	lb := r.found.balancer
	if r.found.role != plan.Guest || lb != nil && desired.IsShared(lb.Tags) {
		// A user has written the annotation of any other guest.
		gone[settings.AnnotationLoadBalancerID] = nil
	}
	return r.of.Annotate(ctx, r.service, gone)
}
