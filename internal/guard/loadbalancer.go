package guard

import (
	"context"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/members"
)

type loadBalancer struct {
	real cloudprovider.LoadBalancer
	caller
}

func (l loadBalancer) GetLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	type answer struct {
		status *v1.LoadBalancerStatus
		exists bool
	}
	a, err := call(ctx, l.caller, reads("LoadBalancer.GetLoadBalancer", key(service)),
		func(ctx context.Context) (a answer, err error) {
			a.status, a.exists, err = l.real.GetLoadBalancer(ctx, clusterName, service)
			return a, err
		})
	return a.status, a.exists, err
}

// GetLoadBalancerName bypasses the fence: it computes a name, and has no error to return.
func (l loadBalancer) GetLoadBalancerName(
	ctx context.Context, clusterName string, service *v1.Service,
) (name string) {
	_ = l.run(ctx, "LoadBalancer.GetLoadBalancerName", func() error {
		name = l.real.GetLoadBalancerName(ctx, clusterName, service)
		return nil
	})
	return name
}

func (l loadBalancer) EnsureLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return call(ctx, l.caller, writes("LoadBalancer.EnsureLoadBalancer", key(service)),
		func(ctx context.Context) (*v1.LoadBalancerStatus, error) {
			return l.real.EnsureLoadBalancer(ctx, clusterName, service, nodes)
		})
}

func (l loadBalancer) UpdateLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) error {
	return do(ctx, l.caller, writes("LoadBalancer.UpdateLoadBalancer", key(service)),
		func(ctx context.Context) error {
			return l.real.UpdateLoadBalancer(ctx, clusterName, service, nodes)
		})
}

func (l loadBalancer) EnsureLoadBalancerDeleted(
	ctx context.Context, clusterName string, service *v1.Service,
) error {
	return do(ctx, l.caller, writes("LoadBalancer.EnsureLoadBalancerDeleted", key(service)),
		func(ctx context.Context) error {
			return l.real.EnsureLoadBalancerDeleted(ctx, clusterName, service)
		})
}

// endpointBalancer is a load balancer that also is a [members.EndpointBalancer].
type endpointBalancer struct {
	loadBalancer
	endpoints members.EndpointBalancer
}

// WantsEndpoints bypasses the fence: it sends no request, and has no error to return.
func (e endpointBalancer) WantsEndpoints(service *v1.Service) (wants bool) {
	_ = e.recovered("LoadBalancer.WantsEndpoints", func() error {
		wants = e.endpoints.WantsEndpoints(service)
		return nil
	})
	return wants
}

func (e endpointBalancer) EnsureEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	slices []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	return call(ctx, e.caller, writes("LoadBalancer.EnsureLoadBalancer", key(service)),
		func(ctx context.Context) (*v1.LoadBalancerStatus, error) {
			return e.endpoints.EnsureEndpointLoadBalancer(ctx, clusterName, service, nodes, slices)
		})
}

func (e endpointBalancer) UpdateEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	slices []*discoveryv1.EndpointSlice,
) error {
	return do(ctx, e.caller, writes("LoadBalancer.UpdateLoadBalancer", key(service)),
		func(ctx context.Context) error {
			return e.endpoints.UpdateEndpointLoadBalancer(ctx, clusterName, service, nodes, slices)
		})
}

// key names a Service as kubectl does. A caller may pass nil.
func key(service *v1.Service) string {
	if service == nil {
		return ""
	}
	return service.Namespace + "/" + service.Name
}
