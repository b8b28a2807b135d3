package loadbalancer

import (
	"context"
	"net/netip"
	"slices"

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
	return l.reachesPods(service, l.targetOf(service))
}

// reachesPods reports whether endpoints can be the members of a Service with the target. Without
// ranges none can: the target pod is then refused. The target auto needs a range of the first
// family of the Service, which is that of members: otherwise nodes are the members.
func (l *LoadBalancers) reachesPods(service *v1.Service, target string) bool {
	ranges, _ := l.podRanges()
	switch target {
	case settings.TargetPod:
		return len(ranges) > 0
	case settings.TargetAuto:
		isIPv4 := desired.FirstFamily(service) == v1.IPv4Protocol
		return slices.ContainsFunc(ranges,
			func(r netip.Prefix) bool { return r.Addr().Is4() == isIPv4 })
	}
	return false
}

func (l *LoadBalancers) targetOf(service *v1.Service) string {
	wanted, _ := settings.Of(service, l.config.Defaults)
	return wanted.MemberTarget
}

// awaitsEndpoints reports whether the Service has changed to pods as members since the service
// controller read it. The service controller calls again, with the endpoints. A service controller
// that has none to give is refused.
func (r *reconciler) awaitsEndpoints(asked *v1.Service) bool {
	target := r.of.targetOf(r.service)
	return r.state.endpoints == nil && target == settings.TargetPod &&
		r.of.reachesPods(r.service, target) &&
		(r.repair || r.of.targetOf(asked) != settings.TargetPod)
}

// EnsureEndpointLoadBalancer implements ccm.EndpointBalancer.
func (l *LoadBalancers) EnsureEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	endpointSlices []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	return l.ensureForCaller(ctx, request{
		cluster: clusterName, service: service, nodes: nodes, endpoints: &endpoints{endpointSlices},
		mode: mode{create: true},
	})
}

// UpdateEndpointLoadBalancer implements ccm.EndpointBalancer.
func (l *LoadBalancers) UpdateEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	endpointSlices []*discoveryv1.EndpointSlice,
) error {
	return l.updateForCaller(ctx, request{
		cluster: clusterName, service: service, nodes: nodes, endpoints: &endpoints{endpointSlices},
		mode: mode{nodes: true},
	})
}

// podRanges are the ranges of pods that load balancers reach: those that the operator declares, or
// those to which fxccm writes routes, with their router.
func (l *LoadBalancers) podRanges() (ranges []netip.Prefix, routerID string) {
	declared := l.config.Defaults.LoadBalancer.PodRanges
	if len(declared) == 0 {
		return l.config.Routes.Ranges, l.config.Routes.RouterID
	}
	for _, text := range declared {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r.Masked())
		}
	}
	return ranges, ""
}

// pods returns the pods that are the members, or nil if nodes are. A repair of drift has the
// endpoints of the last call of the service controller, so it restores what that call wrote.
func (r *reconciler) pods(has desired.Features) (*desired.Pods, error) {
	target := r.settings.MemberTarget
	reaches := r.of.reachesPods(r.service, target)
	switch {
	case target != settings.TargetPod && (!reaches || r.state.endpoints == nil):
		return nil, nil
	case !reaches:
		return nil, r.notes.refuse(aboutPlaces, events.Refuse(events.Unsupported,
			"%s is pod, but no pod can be reached: option pod-ranges of [LoadBalancer] in "+
				"cloud.conf is empty, and fxccm writes no routes ([Route] router-id and "+
				"--cluster-cidr); list the ranges of pods to which the router of the load "+
				"balancer's subnet has routes, or set member-target to node or auto",
			r.nameOf("member-target")))
	case r.state.endpoints == nil:
		return nil, r.notes.refuse(aboutPlaces, events.Refuse(events.Unsupported,
			"%s is pod, but the service controller passes no endpoints to the provider; set "+
				"member-target to node or auto, or use fxccm's service-lb-controller",
			r.nameOf("member-target")))
	}
	ranges, routerID := r.of.podRanges()
	pods := &desired.Pods{
		Endpoints: r.state.endpoints.slices, Ranges: ranges, RouterID: routerID,
	}
	families := r.service.Spec.IPFamilies
	if target != settings.TargetPod && has.MembersOfEachFamily && has.AdditionalVIPs &&
		len(families) > 1 && !pods.ReachedIn(families[1]) {
		return nil, nil // nodes serve both families
	}
	return pods, nil
}
