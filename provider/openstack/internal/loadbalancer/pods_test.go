package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// slicesOf returns EndpointSlices with ready pods at these addresses, at port 8080.
func slicesOf(service *v1.Service, addresses ...string) []*discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	for _, port := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: &port.Name, Protocol: &port.Protocol, Port: new(int32(8080)),
		})
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return []*discoveryv1.EndpointSlice{slice}
}

// ensurePods is ensure with pods at these addresses.
func (c *cluster) ensurePods(
	service *v1.Service, node *v1.Node, addresses ...string,
) *v1.LoadBalancerStatus {
	c.site.t.Helper()
	return c.ensureBy(service, func(now *v1.Service) (*v1.LoadBalancerStatus, error) {
		return c.EnsureEndpointLoadBalancer(c.site.t.Context(), "kubernetes", now,
			[]*v1.Node{node}, slicesOf(now, addresses...))
	})
}

// memberAddresses returns the members of the only pool, sorted.
func (s *site) memberAddresses() (all []string) {
	s.t.Helper()
	lbs := s.LoadBalancers()
	if len(lbs) != 1 || len(lbs[0].Pools) != 1 {
		s.t.Fatalf("the load balancers are %+v", lbs)
	}
	for _, m := range lbs[0].Pools[0].Members {
		all = append(all, fmt.Sprintf("%s:%d", m.Address, m.ProtocolPort))
	}
	slices.Sort(all)
	return all
}

func (s *site) wantMembers(want ...string) {
	s.t.Helper()
	if got := s.memberAddresses(); !slices.Equal(got, want) {
		s.t.Errorf("members %v, want %v", got, want)
	}
}

func withTarget(service *v1.Service, target string) *v1.Service {
	annotations("member-target", target)(service)
	return service
}

func TestPods_RangesAreDeclared_EndpointsAreMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := withTarget(s.addService("web", 80), "pod")
	s.update(service)
	if !c.WantsEndpoints(service) {
		t.Error("the provider wants no endpoints")
	}
	c.ensurePods(service, node, "10.244.1.1", "10.244.1.2", "203.0.113.9")
	s.wantMembers("10.244.1.1:8080", "10.244.1.2:8080")

	// A rollout costs one request for all members.
	mark := s.mark()
	err := c.UpdateEndpointLoadBalancer(t.Context(), "kubernetes", s.now(service),
		[]*v1.Node{node}, slicesOf(service, "10.244.1.3", "10.244.1.4"))
	if err != nil && !isWait(err) {
		t.Fatal(err)
	}
	if writes := s.writes(mark); len(writes) != 1 || !strings.HasSuffix(writes[0], "/members") {
		t.Errorf("the requests are %q", writes)
	}
	s.wantMembers("10.244.1.3:8080", "10.244.1.4:8080")

	// Nodes are members again.
	service = withTarget(s.now(service), "node")
	s.update(service)
	if c.WantsEndpoints(service) {
		t.Error("the provider wants endpoints for nodes")
	}
	c.ensure(service, node)
	s.wantMembers(node.Status.Addresses[0].Address + ":30080")
}

// The pool has each ready pod at any time, and the leaving ones without new connections.
func TestPods_RolloutOf100_EachStepIsOneRequestForAllMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := withTarget(s.addService("web", 80), "pod")
	s.update(service)
	const pods, atOnce = 100, 25
	for replaced := 0; replaced <= pods+atOnce; replaced += atOnce {
		all, want := slicesOf(service), map[string]int{} // weights by address
		add := func(generation, pod int, isLeaving bool) {
			endpoint := discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.244.%d.%d", generation, pod)},
			}
			want[endpoint.Addresses[0]] = 1
			if isLeaving {
				endpoint.Conditions = discoveryv1.EndpointConditions{
					Ready: new(false), Serving: new(true), Terminating: new(true),
				}
				want[endpoint.Addresses[0]] = 0
			}
			all[0].Endpoints = append(all[0].Endpoints, endpoint)
		}
		for pod := range pods {
			if pod < replaced {
				add(2, pod, false)
			}
			if pod >= replaced-atOnce {
				add(1, pod, pod < replaced)
			}
		}
		mark := s.mark()
		c.ensureBy(service, func(now *v1.Service) (*v1.LoadBalancerStatus, error) {
			return c.EnsureEndpointLoadBalancer(t.Context(), "kubernetes", now, []*v1.Node{node},
				all)
		})
		got := map[string]int{}
		for _, m := range s.LoadBalancers()[0].Pools[0].Members {
			got[m.Address] = m.Weight
		}
		if !maps.Equal(got, want) {
			t.Errorf("after %d pods: members %v, want %v", replaced, got, want)
		}
		if writes := s.writes(mark); replaced > 0 && len(writes) != 1 {
			t.Errorf("after %d pods: the requests are %q, want one", replaced, writes)
		}
	}
}

func TestPods_NoRangeIsDeclared_PodIsRefusedAndAutoIsNode(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	refused := withTarget(s.addService("refused", 80), "pod")
	s.update(refused)
	if c.WantsEndpoints(refused) {
		t.Error("the provider wants endpoints that it cannot reach")
	}
	_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(refused), []*v1.Node{node})
	if err == nil {
		t.Error("the Service is served")
	}
	if lbs := s.LoadBalancers(); len(lbs) > 0 {
		t.Errorf("the load balancers are %+v", lbs)
	}
	if said := s.said("pod-ranges"); len(said) != 1 {
		t.Errorf("the events are %q", said)
	}

	auto := withTarget(s.addService("auto", 80), "auto")
	s.update(auto)
	c.ensure(auto, node)
	s.wantMembers(node.Status.Addresses[0].Address + ":30080")
}

func TestPods_FxccmWritesTheirRoutes_EndpointsAreMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.routes = Routes{
		RouterID: s.router, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
	}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	for _, target := range []string{"pod", "auto"} {
		service = withTarget(s.now(service), target)
		s.update(service)
		if !c.WantsEndpoints(service) {
			t.Errorf("%s: the provider wants no endpoints", target)
		}
		c.ensurePods(service, node, "10.244.1.1", "203.0.113.9")
		s.wantMembers("10.244.1.1:8080")
	}
	if said := s.said("correct --cluster-cidr"); len(said) != 1 {
		t.Errorf("the events are %q", said)
	}
}

// The router of the routes has no port in the subnet of the load balancer, or is not its gateway.
func TestPods_TheirRoutesAreElsewhere_PodIsRefusedAndAutoIsNode(t *testing.T) {
	t.Parallel()
	for said, isConnected := range map[string]bool{
		"has no port in the subnet ":                          false,
		"is not the next hop to 10.244.0.0/16 in the subnet ": true,
	} {
		t.Run(fmt.Sprintf("connected: %t", isConnected), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.routes = Routes{
				RouterID: s.AddRouter(openstacktest.Router{Name: "other"}),
				Ranges:   []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
			}
			if isConnected {
				s.AddPort(openstacktest.Port{
					NetworkID: s.network, DeviceID: s.routes.RouterID,
					DeviceOwner: "network:router_interface",
					FixedIPs: []openstacktest.FixedIP{
						{SubnetID: s.subnet, Address: "10.0.255.254"},
					},
				})
			}
			s.refusesPods(said + s.subnet)
		})
	}
}

// refusesPods checks that pods are refused as members until the operator declares their ranges.
func (s *site) refusesPods(said string) {
	s.t.Helper()
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	refused := withTarget(s.addService("refused", 80), "pod")
	s.update(refused)
	_, err := c.EnsureEndpointLoadBalancer(s.t.Context(), "kubernetes", s.now(refused),
		[]*v1.Node{node}, slicesOf(refused, "10.244.1.1"))
	if err == nil {
		s.t.Error("the Service is served")
	}
	if lbs := s.LoadBalancers(); len(lbs) > 0 {
		s.t.Errorf("the load balancers are %+v", lbs)
	}
	if got := s.said(said); len(got) != 1 {
		s.t.Errorf("the events are %q, want one that says %q", s.said(""), said)
	}

	auto := withTarget(s.addService("auto", 80), "auto")
	s.update(auto)
	c.ensurePods(auto, node, "10.244.1.1")
	s.wantMembers(node.Status.Addresses[0].Address + ":30080")

	// The operator declares that another router leads to the pods.
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c = s.begin("cluster-1", s.kube)
	c.ensurePods(auto, node, "10.244.1.1")
	s.wantMembers("10.244.1.1:8080")
}

func TestPods_AutoWithRanges_EndpointsAreMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	s.defaults.LoadBalancer.MemberTarget = "auto"
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	c.ensurePods(service, node, "10.244.1.1")
	s.wantMembers("10.244.1.1:8080")
}

// A network plugin may give addresses to which no route leads, and users write EndpointSlices.
func TestPods_AutoReachesNoEndpoint_NodesAreMembersUntilItDoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	s.defaults.LoadBalancer.MemberTarget = "auto"
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	c.ensurePods(service, node, "203.0.113.9")
	s.wantMembers(node.Status.Addresses[0].Address + ":30080")
	c.ensurePods(service, node, "203.0.113.9", "10.244.1.1")
	s.wantMembers("10.244.1.1:8080")
	c.ensurePods(service, node)
	s.wantMembers()
}

// Members have the family of the load balancer's first address.
func TestPods_AutoWithoutARangeOfTheFirstFamily_NodesAreMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"fd00:1::/56"}
	s.defaults.LoadBalancer.MemberTarget = "auto"
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	if c.WantsEndpoints(service) {
		t.Error("the provider wants endpoints of another family")
	}
	c.ensurePods(service, node, "10.244.1.1")
	s.wantMembers(node.Status.Addresses[0].Address + ":30080")
	service.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}
	if !c.WantsEndpoints(service) {
		t.Error("the provider wants no endpoints of a family that it reaches")
	}
}

// With ovn, members of the first family do not serve the address of the second one.
func TestPods_AutoWithOVNReachesOneFamilyOfTwo_NodesAreMembers(t *testing.T) {
	t.Parallel()
	for _, byRouter := range []bool{false, true} {
		t.Run(fmt.Sprintf("the router counts: %t", byRouter), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, openstacktest.WithLoadBalancerVersion(30))
			s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
			s.defaults.LoadBalancer.LBProvider = octavia.ProviderOVN
			s.defaults.LoadBalancer.MemberTarget = "auto"
			if byRouter {
				s.routes = Routes{RouterID: s.router, Ranges: []netip.Prefix{
					netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/32"),
				}}
			} else {
				s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
			}
			c, node := s.begin("cluster-1", s.kube), s.addNode("a")
			first := node.Status.Addresses[0].Address
			node.Status.Addresses = append(node.Status.Addresses,
				v1.NodeAddress{Type: v1.NodeInternalIP, Address: "fd00::11"})
			service := s.addService("web", 80)
			service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
			s.update(service)
			if all := published(c.ensurePods(service, node, "10.244.1.1")); len(all) != 2 {
				t.Errorf("the addresses are %q, want one of each family", all)
			}
			s.wantMembers(first+":30080", "fd00::11:30080")
		})
	}
}

// A caller that has no endpoints, such as another service controller, must not empty a pool.
func TestPods_CallerHasNoEndpoints_IsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := withTarget(s.addService("web", 80), "pod")
	s.update(service)
	c.ensurePods(service, node, "10.244.1.1")
	if err := c.UpdateLoadBalancer(t.Context(), "kubernetes", s.now(service),
		[]*v1.Node{node}); err == nil {
		t.Error("the update succeeds")
	}
	if said := s.said("passes no endpoints"); len(said) != 1 {
		t.Errorf("the events are %q, want one", said)
	}
	s.wantMembers("10.244.1.1:8080")
}

func TestPods_Drift_IsRepairedWithTheLastEndpoints(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := withTarget(s.addService("web", 80), "pod")
	s.update(service)
	c.ensurePods(service, node, "10.244.1.1")
	if err := s.ChangeLoadBalancer(s.LoadBalancers()[0].ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members = nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		_, err := c.ensure1(request{
			cluster: "kubernetes", service: s.now(service), nodes: []*v1.Node{node},
			mode: mode{create: true, repair: true, deep: true},
		})
		if err == nil {
			break
		}
		if !isWait(err) {
			t.Fatal(err)
		}
	}
	s.wantMembers("10.244.1.1:8080")
}

// The service controller is about to call with the endpoints. Until then the nodes stay.
func TestPods_TargetChangesBeforeARepair_TheRepairWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	c.ensure(service, node)
	service = withTarget(s.now(service), "pod")
	s.update(service)
	_, err := c.ensure1(request{
		cluster: "kubernetes", service: s.now(service), nodes: []*v1.Node{node},
		mode: mode{create: true, repair: true, deep: true},
	})
	if !isWait(err) {
		t.Errorf("the repair returns %v", err)
	}
	if said := s.said("member-target"); len(said) > 0 {
		t.Errorf("the events are %q", said)
	}
	s.wantMembers(node.Status.Addresses[0].Address + ":30080")
	c.ensurePods(service, node, "10.244.1.1")
	s.wantMembers("10.244.1.1:8080")
}

func TestPreview_Pods_EndpointsAreMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := withTarget(s.addService("web", 80), "pod")
	s.update(service)
	preview, err := c.Preview(t.Context(), "kubernetes", s.now(service), []*v1.Node{node},
		slicesOf(service, "10.244.1.1"))
	if err != nil || preview.Refused {
		t.Fatalf("%+v, %v", preview, err)
	}
	if outline := strings.Join(preview.Desired, "\n"); !strings.Contains(outline, "10.244.1.1") {
		t.Errorf("desired:\n%s", outline)
	}
	if len(preview.Plan.Steps) == 0 {
		t.Errorf("no step in %v", preview.Plan)
	}
}
