package loadbalancer

import (
	"context"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

var _ members.EndpointBalancer = (*LoadBalancers)(nil)

// endpoints are the EndpointSlices of a Service. Nil: the caller has none to give.
type endpoints struct{ slices []*discoveryv1.EndpointSlice }

// WantsEndpoints implements ccm.EndpointBalancer.
func (l *LoadBalancers) WantsEndpoints(service *v1.Service) bool {
	// Without ranges no endpoint can be a member: nodes are, or the Service is refused.
	target := l.targetOf(service)
	return (target == settings.TargetPod || target == settings.TargetAuto) &&
		len(l.podRanges()) > 0
}

func (l *LoadBalancers) targetOf(service *v1.Service) string {
	wanted, _ := settings.Of(service, l.config.Defaults)
	return wanted.MemberTarget
}

// awaitsEndpoints reports whether the Service has changed to pods as members since the service
// controller read it. The service controller calls again, with the endpoints. A service controller
// that has none to give is refused.
func (r *reconciler) awaitsEndpoints(asked *v1.Service) bool {
	return r.state.endpoints == nil && len(r.of.podRanges()) > 0 &&
		r.of.targetOf(r.service) == settings.TargetPod &&
		(r.repair || r.of.targetOf(asked) != settings.TargetPod)
}

// EnsureEndpointLoadBalancer implements ccm.EndpointBalancer.
func (l *LoadBalancers) EnsureEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	slices []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	return l.ensureForCaller(ctx, request{
		cluster: clusterName, service: service, nodes: nodes, endpoints: &endpoints{slices},
		mode: mode{create: true},
	})
}

// UpdateEndpointLoadBalancer implements ccm.EndpointBalancer.
func (l *LoadBalancers) UpdateEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	slices []*discoveryv1.EndpointSlice,
) error {
	return l.updateForCaller(ctx, request{
		cluster: clusterName, service: service, nodes: nodes, endpoints: &endpoints{slices},
		mode: mode{nodes: true},
	})
}

// podRanges are the ranges of pods that load balancers reach.
func (l *LoadBalancers) podRanges() (ranges []netip.Prefix) {
	for _, text := range l.config.Defaults.LoadBalancer.PodRanges {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r.Masked())
		}
	}
	return ranges
}

// pods returns the pods that are the members, or nil if nodes are. A repair of drift has the
// endpoints of the last call of the service controller, so it restores what that call wrote.
func (r *reconciler) pods() (*desired.Pods, error) {
	ranges := r.of.podRanges()
	switch target := r.settings.MemberTarget; {
	case target != settings.TargetPod && target != settings.TargetAuto:
		return nil, nil
	case target == settings.TargetAuto && (len(ranges) == 0 || r.state.endpoints == nil):
		return nil, nil
	case len(ranges) == 0:
		return nil, r.notes.refuse(aboutPlaces, events.Refuse(events.Unsupported,
			"%s is pod, but no pod can be reached: option pod-ranges of [LoadBalancer] in "+
				"cloud.conf is empty; list the ranges of pods to which the router of the load "+
				"balancer's subnet has routes, or set member-target to node or auto",
			r.nameOf("member-target")))
	case r.state.endpoints == nil:
		return nil, r.notes.refuse(aboutPlaces, events.Refuse(events.Unsupported,
			"%s is pod, but the service controller passes no endpoints to the provider; set "+
				"member-target to node or auto, or use fxccm's service-lb-controller",
			r.nameOf("member-target")))
	}
	return &desired.Pods{Endpoints: r.state.endpoints.slices, Ranges: ranges}, nil
}
