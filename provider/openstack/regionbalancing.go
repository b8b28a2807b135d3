package openstack

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// regionalBalancers keeps the load balancer of a Service in the region that the Service requests,
// with the nodes of that region as members.
//
// The region is recorded in the Service before the first request creates an object. A load balancer
// cannot move, so a Service that requests another region later is served where it is, with a
// Warning.
type regionalBalancers struct{ *regions }

var _ ccm.EndpointBalancer = regionalBalancers{}

// LoadBalancer implements cloudprovider.Interface. Load balancers are served if a region serves
// them.
func (r *regions) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	served := false
	for _, c := range r.all {
		if c.balancing != nil {
			c.balancing.serve()
			served = true
		}
	}
	if !served {
		return nil, false
	}
	return regionalBalancers{r}, true
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer. The name is the same in all regions.
func (b regionalBalancers) GetLoadBalancerName(
	ctx context.Context, cluster string, service *v1.Service,
) string {
	serving := b.where(func(c *cloud) bool { return c.balancing != nil })
	return serving[0].balancing.balancers.GetLoadBalancerName(ctx, cluster, service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b regionalBalancers) GetLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service,
) (status *v1.LoadBalancerStatus, exists bool, err error) {
	err = b.inRecorded(service, func(c *cloud) (err error) {
		status, exists, err = c.balancing.balancers.GetLoadBalancer(ctx, cluster, service)
		return err
	})
	return status, exists, err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b regionalBalancers) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return b.ensure(ctx, cluster, service, func(c *cloud) (*v1.LoadBalancerStatus, error) {
		return c.balancing.balancers.EnsureLoadBalancer(ctx, cluster, service,
			b.nodesIn(c, nodes))
	})
}

// ensure calls the region that the Service requests, and records it. It calls the recorded region
// while that has the load balancer, and any region if none has the requested or the recorded name:
// that reports the annotation.
func (b regionalBalancers) ensure(
	ctx context.Context, cluster string, service *v1.Service,
	call func(*cloud) (*v1.LoadBalancerStatus, error),
) (status *v1.LoadBalancerStatus, err error) {
	wanted := b.nameOr(service.Annotations[settings.AnnotationRegion])
	serving := b.where(func(c *cloud) bool { return c.balancing != nil })
	c := b.named(wanted)
	if c == nil || c.balancing == nil {
		c = serving[0]
	}
	recorded := b.recorded(service)
	isRemoved := recorded != "" && !slices.Contains(serving, b.named(recorded)) &&
		recorded == service.Annotations[settings.AnnotationLoadBalancerRegion]
	if recorded != "" && recorded != c.name && !isRemoved {
		if c, err = b.move(ctx, cluster, service, recorded, c); err != nil {
			return nil, err
		}
	}
	if c.name == wanted && !isRemoved {
		if err := c.balancing.balancers.Annotate(ctx, service,
			map[string]*string{settings.AnnotationLoadBalancerRegion: &wanted}); err != nil {
			return nil, fmt.Errorf("record the region of the load balancer: %w", err)
		}
	}
	if !isRemoved {
		b.mu.Lock()
		b.balancing[service.UID] = c.name
		b.mu.Unlock()
	}
	err = c.limitBalancerCalls(func() error {
		status, err = call(c)
		return err
	})
	return status, err
}

// WantsEndpoints implements ccm.EndpointBalancer. The next call may be for the region that the
// Service requests, or for the recorded one.
func (b regionalBalancers) WantsEndpoints(service *v1.Service) bool {
	for _, name := range []string{
		b.nameOr(service.Annotations[settings.AnnotationRegion]), b.recorded(service),
	} {
		if c := b.named(name); c != nil && c.balancing != nil &&
			c.balancing.balancers.WantsEndpoints(service) {
			return true
		}
	}
	return false
}

// EnsureEndpointLoadBalancer implements ccm.EndpointBalancer.
func (b regionalBalancers) EnsureEndpointLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	return b.ensure(ctx, cluster, service, func(c *cloud) (*v1.LoadBalancerStatus, error) {
		return c.balancing.balancers.EnsureEndpointLoadBalancer(ctx, cluster, service,
			b.nodesIn(c, nodes), endpoints)
	})
}

// UpdateEndpointLoadBalancer implements ccm.EndpointBalancer.
func (b regionalBalancers) UpdateEndpointLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) error {
	return b.inRecorded(service, func(c *cloud) error {
		return c.balancing.balancers.UpdateEndpointLoadBalancer(ctx, cluster, service,
			b.nodesIn(c, nodes), endpoints)
	})
}

// maxBalancerCalls limits the calls in flight of one region to half of the default of
// --concurrent-service-syncs. So a region whose requests hang leaves room for the others.
const maxBalancerCalls = 8

// limitBalancerCalls calls a region. If too many calls to it are in flight, it returns an error
// that makes the service controller repeat the call without blocking a worker.
func (c *cloud) limitBalancerCalls(call func() error) error {
	defer c.balancerCalls.Add(-1)
	if c.balancerCalls.Add(1) > maxBalancerCalls {
		return api.NewRetryError("many calls to region "+c.name+" are in flight", time.Second)
	}
	return call()
}

// move returns the region that is recorded if the Service has a load balancer in it, and else the
// other one.
func (b regionalBalancers) move(
	ctx context.Context, cluster string, service *v1.Service, recorded string, to *cloud,
) (*cloud, error) {
	from, err := b.serving(recorded)
	if err != nil {
		return nil, err
	}
	_, exists, err := b.GetLoadBalancer(ctx, cluster, service)
	if err != nil {
		return nil, from.explain(err)
	}
	if exists {
		return from, nil
	}
	from.balancing.balancers.Forget(service.UID)
	return to, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b regionalBalancers) UpdateLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) error {
	return b.inRecorded(service, func(c *cloud) error {
		return c.balancing.balancers.UpdateLoadBalancer(ctx, cluster, service, b.nodesIn(c, nodes))
	})
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b regionalBalancers) EnsureLoadBalancerDeleted(
	ctx context.Context, cluster string, service *v1.Service,
) error {
	return b.inRecorded(service, func(c *cloud) error {
		err := c.balancing.balancers.EnsureLoadBalancerDeleted(ctx, cluster, service)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.balancing, service.UID)
		return nil
	})
}

// recorded returns the region in which the Service may have a load balancer, or "". Before the
// cluster had several regions, load balancers were in the default one, and nothing was recorded.
func (b regionalBalancers) recorded(service *v1.Service) string {
	b.mu.Lock()
	known := b.balancing[service.UID]
	b.mu.Unlock()
	switch name := service.Annotations[settings.AnnotationLoadBalancerRegion]; {
	case known != "":
		return known
	case name == "" && len(service.Status.LoadBalancer.Ingress) > 0:
		return b.all[0].name
	default:
		return name
	}
}

// inRecorded calls the region in which the Service may have a load balancer, if one is recorded.
func (b regionalBalancers) inRecorded(service *v1.Service, call func(*cloud) error) error {
	recorded := b.recorded(service)
	if recorded == "" {
		return nil
	}
	c, err := b.serving(recorded)
	if err != nil {
		return err
	}
	return c.limitBalancerCalls(func() error { return call(c) })
}

// serving returns the region that is recorded in a Service, if it serves load balancers.
func (b regionalBalancers) serving(recorded string) (*cloud, error) {
	c := b.named(recorded)
	if c == nil || c.balancing == nil {
		return nil, fmt.Errorf("%s: annotation %s names the region %q, which cloud.conf does not "+
			"have, or which serves no load balancers; add it again, or remove the annotation if "+
			"the load balancer is deleted", apiServer, settings.AnnotationLoadBalancerRegion,
			recorded)
	}
	return c, nil
}
