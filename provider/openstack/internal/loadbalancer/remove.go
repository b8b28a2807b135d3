package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/apply"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// GetLoadBalancer implements cloudprovider.LoadBalancer. There is a load balancer as long as anything is left of it: upstream's
// controller deletes only what exists, and floating IPs and security groups outlive a load balancer that somebody else has deleted. So do
// the annotations of a Service that stays, if the CCM was killed after the load balancer had gone.
func (l *LoadBalancers) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	unlock, _, err := l.locks.lock(ctx, "service "+string(service.UID))
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	p := &pass{LoadBalancers: l, request: request{cluster: clusterName, service: service}, memory: l.memories.peek(service.UID)}
	defer p.release()
	if err := p.look(ctx); err != nil {
		return nil, false, err
	}
	switch {
	case p.claim.balancer != nil:
		if err := p.lookForFloatingIPs(ctx); err != nil {
			return nil, false, err
		}
		return p.status(), true, nil
	case p.claim.deleting != nil:
		return &v1.LoadBalancerStatus{}, true, nil
	}
	if err := p.lookBeside(ctx); err != nil {
		return nil, false, err
	}
	left := len(p.floating) > 0 || p.observed.SecurityGroup != nil || isAnnotatedInVain(service)
	if !left && !wanted(service) {
		// Upstream deletes nothing then: the Service was refused, or Octavia has finished meanwhile.
		l.memories.forget(service.UID)
	}
	return &v1.LoadBalancerStatus{}, left, nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. It returns when all that was the Service's is gone, and has not been
// only asked to go: nobody would look again.
func (l *LoadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) (err error) {
	defer l.measure("loadbalancer_delete", &err)()
	unlock, _, err := l.locks.lock(ctx, "service "+string(service.UID))
	if err != nil {
		return err
	}
	defer unlock()
	// Whatever comes now, the Service is none to repair.
	l.memories.dismiss(service.UID)
	p := &pass{LoadBalancers: l, request: request{cluster: clusterName, service: service}, memory: l.memories.of(service.UID)}
	defer p.release()
	if err := p.remove(ctx); err != nil {
		return p.explain(err)
	}
	if err := p.disown(ctx); err != nil {
		return err
	}
	l.memories.forget(service.UID)
	return nil
}

// look finds the Service's load balancer, whether it is wanted or not.
func (p *pass) look(ctx context.Context) error {
	if err := p.identify(ctx); err != nil {
		return err
	}
	p.settings, _ = settings.Of(p.service, p.config.Defaults)
	p.silent = true
	var refused *refusal
	if err := p.locate(ctx); errors.As(err, &refused) {
		// What it names is not the Service's.
		p.claim = claim{}
	} else if err != nil {
		return err
	}
	p.observed = balancer.Observed{LoadBalancer: p.claim.balancer, Role: p.claim.role}
	return nil
}

// lookBeside finds what there is of the Service's beside its load balancer.
func (p *pass) lookBeside(ctx context.Context) error {
	if err := p.lookForFloatingIPs(ctx); err != nil {
		return err
	}
	return p.observeSecurityGroup(ctx)
}

func (p *pass) lookForFloatingIPs(ctx context.Context) (err error) {
	if p.floating, err = p.config.Neutron.FloatingIPsOf(ctx, p.floatingIPQuery(), time.Time{}); err != nil {
		return err
	}
	p.observed.FloatingIPs = p.floating
	return nil
}

// remove deletes what is the Service's, and waits for its end.
func (p *pass) remove(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		return err
	}
	end := p.config.Clock.Now().Add(deleteTimeout)
	if lb := p.claim.deleting; lb != nil && p.claim.balancer == nil {
		// The pass that has asked for that has done the rest, unless it was interrupted; so it is soon enough to look when this is over.
		if err := p.seeGone(ctx, lb, end); err != nil {
			return err
		}
		p.claim.deleting = nil
	}
	if err := p.lookBeside(ctx); err != nil {
		return err
	}
	if err := p.removeSeen(ctx, end); err != nil {
		return err
	}
	for i := range p.claim.duplicates {
		if err := p.removeOne(ctx, &p.claim.duplicates[i]); err != nil {
			return err
		}
	}
	return nil
}

// removeOne deletes a load balancer that was made for the Service and that it does not use.
func (p *pass) removeOne(ctx context.Context, lb *balancer.LoadBalancer) error {
	other := *p
	other.claim = claim{balancer: lb, role: balancer.Owner}
	floating, err := p.config.Neutron.FloatingIPsOf(ctx, other.floatingIPQuery(), time.Time{})
	if err != nil {
		return err
	}
	other.floating = nil
	for _, ip := range floating {
		if ip.PortID == lb.VIP.PortID {
			other.floating = append(other.floating, ip)
		}
	}
	other.observed = balancer.Observed{LoadBalancer: lb, Role: balancer.Owner, FloatingIPs: other.floating}
	return other.removeSeen(ctx, p.config.Clock.Now().Add(deleteTimeout))
}

// removeSeen removes what was observed. After end it waits no more.
func (p *pass) removeSeen(ctx context.Context, end time.Time) error {
	if err := p.readContents(ctx); err != nil {
		return err
	}
	todo := p.removal()
	p.silent = false
	blocks := p.tell(todo.Notices)
	lb := p.observed.LoadBalancer
	p.config.Logger.V(4).Info("Load balancer deletion plan", "service", p.service.Namespace+"/"+p.service.Name, "plan", todo.String())
	done, err := p.executor.Run(ctx, todo, apply.State{LoadBalancer: lb, Timeout: max(0, end.Sub(p.config.Clock.Now()))})
	p.changes.note(p.identity.UID, p.config.Clock.Now())
	if lb != nil {
		p.changes.note(lb.ID, p.config.Clock.Now())
	}
	if err != nil {
		return p.handBack(err)
	}
	gone := p.claim.deleting
	for _, step := range done.Done {
		if _, deleted := step.(plan.DeleteLoadBalancer); deleted {
			gone = lb
		}
	}
	if gone == nil {
		return blocks
	}
	if err := p.seeGone(ctx, gone, end); err != nil {
		return err
	}
	return blocks
}

// seeGone returns nil when a load balancer that is being deleted does not exist any more. After end it waits no more.
func (p *pass) seeGone(ctx context.Context, lb *balancer.LoadBalancer, end time.Time) error {
	last, err := p.config.Octavia.Settled(ctx, lb.ID, max(0, end.Sub(p.config.Clock.Now())))
	switch {
	case errors.Is(err, octavia.ErrNotFound):
		return nil
	case errors.Is(err, octavia.ErrPending):
		return p.wait("load balancer %s is being deleted", lb.ID)
	case err != nil:
		return err
	}
	return fmt.Errorf("load balancer %s is %s after its deletion", lb.ID, last.Status)
}

// readContents reads what lies below the load balancer, also if it is to go as a whole: a guest's listeners tell of the guest when somebody has
// taken its tags from the load balancer.
func (p *pass) readContents(ctx context.Context) error {
	lb := p.claim.balancer
	if lb == nil {
		return nil
	}
	p.observed.OtherServices = sharers(p.identity, lb)
	is, err := p.config.Octavia.Contents(ctx, lb.ID, octavia.InPart, time.Time{})
	if errors.Is(err, octavia.ErrNotFound) {
		p.observed.LoadBalancer = nil
		return nil
	}
	p.observed.Listeners, p.observed.Pools = is.Listeners, is.Pools
	return err
}

func (p *pass) removal() plan.Plan {
	return plan.Removal(p.identity, p.observed, plan.RemovalOptions{
		KeepFloatingIP: p.settings.KeepFloatingIP, Cascade: p.settings.CascadeDelete, Tags: p.minor >= 5,
	})
}

// isAnnotatedInVain tells whether a Service that stays, and wants no load balancer, bears the address of one.
func isAnnotatedInVain(service *v1.Service) bool {
	return service.DeletionTimestamp == nil && !wanted(service) && service.Annotations[settings.AnnotationLoadBalancerAddress] != ""
}

// disown removes what was written to the Service, unless it goes itself.
func (p *pass) disown(ctx context.Context) error {
	if p.service.DeletionTimestamp != nil {
		return nil
	}
	gone := map[string]*string{settings.AnnotationLoadBalancerAddress: nil}
	if p.claim.role != balancer.Guest {
		// A guest's was written by a user.
		gone[settings.AnnotationLoadBalancerID] = nil
	}
	return p.annotate(ctx, p.service, gone)
}
