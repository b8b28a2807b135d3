package desired

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// pod returns a ready endpoint of a node.
func pod(nodeName, address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &nodeName}
}

func leaving(endpoint discoveryv1.Endpoint) discoveryv1.Endpoint {
	endpoint.Conditions = discoveryv1.EndpointConditions{
		Ready: new(false), Serving: new(true), Terminating: new(true),
	}
	return endpoint
}

func endpointPort(name string, protocol v1.Protocol, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number}
}

// withPods makes pods in 10.244.0.0/16 and fd00:244::/32 the members, at port 8080 of port http.
func withPods(endpoints ...discoveryv1.Endpoint) func(*Input) {
	return func(in *Input) {
		in.Pods = &Pods{
			Ranges: []netip.Prefix{
				netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/32"),
			},
			Endpoints: []*discoveryv1.EndpointSlice{{
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
				Ports: []discoveryv1.EndpointPort{endpointPort("http", v1.ProtocolTCP, 8080)},
			}},
		}
	}
}

// withSecondFamily adds an EndpointSlice with the IPv6 address of a pod.
func withSecondFamily(in *Input) {
	second := *in.Pods.Endpoints[0]
	second.AddressType = discoveryv1.AddressTypeIPv6
	second.Endpoints = []discoveryv1.Endpoint{pod("n1", "fd00:244::1")}
	in.Pods.Endpoints = append(in.Pods.Endpoints, &second)
}

// withRoutes makes the route controller lead to the pods of the nodes n1 and n2.
func withRoutes(in *Input) {
	in.Pods.RouterID = "router"
	in.Nodes[0].Spec.PodCIDRs = []string{"fd00:244:0:1::/64", "10.244.1.0/24"}
	in.Nodes[1].Spec.PodCIDRs = []string{"10.244.2.0/24"}
}

// withoutRoute is withRoutes without the route to the pods of the node n1.
func withoutRoute(in *Input) {
	withRoutes(in)
	in.Nodes[0].Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionTrue},
		{
			Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue,
			Reason: "NoRouteCreated",
		},
	}
}

func podMember(name, address string, weight int) octavia.Member {
	return octavia.Member{
		Name: name, Address: address, Port: 8080, SubnetID: "member subnet", Weight: weight,
	}
}

func TestPods_EachEndpoint_IsAMemberIfItIsReached(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes []func(*Input)
		want    []octavia.Member
		told    []string
	}{
		"in the range, at the target port": {
			[]func(*Input){withPods(pod("n2", "10.244.2.1"), pod("n1", "10.244.1.1"))},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1), podMember("n2", "10.244.2.1", 1)},
			nil,
		},
		"one that drains has weight 0": {
			[]func(*Input){withPods(pod("n1", "10.244.1.1"), leaving(pod("n1", "10.244.1.2")))},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1), podMember("n1", "10.244.1.2", 0)},
			nil,
		},
		"one that drains, and no weights": {
			[]func(*Input){
				withPods(pod("n1", "10.244.1.1"), leaving(pod("n1", "10.244.1.2"))),
				withFeatures(ovn()),
			},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"only one that drains": {
			[]func(*Input){withPods(leaving(pod("n1", "10.244.1.2")))},
			[]octavia.Member{podMember("n1", "10.244.1.2", 1)},
			nil,
		},
		"of the host's network": {
			[]func(*Input){withPods(pod("n1", "10.0.0.1"))},
			[]octavia.Member{podMember("n1", "10.0.0.1", 1)},
			nil,
		},
		"of another node's address": {
			[]func(*Input){withPods(pod("n1", "10.0.0.2"), pod("n1", "10.244.1.1"))},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			[]string{"LoadBalancerEndpointsLeftOut!"},
		},
		"anywhere else": {
			[]func(*Input){withPods(pod("", "203.0.113.7"), pod("", "169.254.169.254"))},
			[]octavia.Member{},
			[]string{"LoadBalancerEndpointsLeftOut!"},
		},
		"on a node that may not be a member": {
			[]func(*Input){withPods(pod("n1", "10.244.1.1"), pod("n9", "10.244.9.1"))},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"only on nodes that may not be members": {
			[]func(*Input){withPods(pod("n9", "10.244.9.1"))},
			[]octavia.Member{},
			[]string{"LoadBalancerWithoutMembers!"},
		},
		"on a node that node-selector leaves out": {
			[]func(*Input){
				withPods(pod("n1", "10.244.1.1")),
				withSettings(func(s *settings.Settings) {
					s.NodeSelector = settings.ParseNodeSelector("edge=yes")
				}),
			},
			[]octavia.Member{},
			[]string{"LoadBalancerWithoutMembers!"},
		},
		"with addresses of a network plugin, which no route has": {
			[]func(*Input){
				withPods(pod("n1", "10.244.2.9"), pod("n1", "10.244.1.1"), pod("n2", "10.244.9.1")),
				withRoutes,
			},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			[]string{"LoadBalancerEndpointsLeftOut!"},
		},
		"of the host's network, on a node with a route": {
			[]func(*Input){withPods(pod("n1", "10.0.0.1")), withRoutes},
			[]octavia.Member{podMember("n1", "10.0.0.1", 1)},
			nil,
		},
		"on a node without a route": {
			[]func(*Input){
				withPods(pod("n1", "10.244.1.1"), pod("n2", "10.244.2.1")), withoutRoute,
			},
			[]octavia.Member{podMember("n2", "10.244.2.1", 1)},
			nil,
		},
		"only on a node without a route": {
			[]func(*Input){withPods(pod("n1", "10.244.1.1")), withoutRoute},
			[]octavia.Member{},
			[]string{"LoadBalancerWithoutMembers!"},
		},
		"of the host's network, on a node without a route": {
			[]func(*Input){withPods(pod("n1", "10.0.0.1")), withoutRoute},
			[]octavia.Member{podMember("n1", "10.0.0.1", 1)},
			nil,
		},
		"on a node without a route of fxccm's, in declared ranges": {
			[]func(*Input){
				withPods(pod("n1", "10.244.1.1")), withoutRoute,
				func(in *Input) { in.Pods.RouterID = "" },
			},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"one that drains, and a ready one elsewhere": {
			[]func(*Input){withPods(leaving(pod("n1", "10.244.1.1")), pod("n9", "10.244.9.1"))},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"none": {[]func(*Input){withPods()}, []octavia.Member{}, nil},
		"without node ports": {
			[]func(*Input){withPods(pod("n1", "10.244.1.1")), func(in *Input) {
				in.Service.Spec.Ports[0].NodePort = 0
			}},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"that names no node": {
			[]func(*Input){withPods(discoveryv1.Endpoint{Addresses: []string{"10.244.1.1"}})},
			[]octavia.Member{podMember("10.244.1.1", "10.244.1.1", 1)},
			nil,
		},
		"of two families, and a dual-stack Service": {
			[]func(*Input){withPods(pod("n1", "10.244.1.1")), dualStack, withSecondFamily},
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"of two families, and VIPs that need members of their own": {
			[]func(*Input){
				withPods(pod("n1", "10.244.1.1")), dualStack, withSecondFamily,
				func(in *Input) {
					in.Features.MembersOfEachFamily = true
					in.Places.AdditionalMember = in.Places.Member
				},
			},
			[]octavia.Member{
				podMember("n1", "10.244.1.1", 1), podMember("n1", "fd00:244::1", 1),
			},
			nil,
		},
		"of another family": {
			[]func(*Input){withPods(pod("n1", "10.244.1.1")), withFamilies(v1.IPv6Protocol)},
			[]octavia.Member{},
			[]string{"LoadBalancerFloatingIPSkipped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, notices := build(t, test.changes...)
			wantTold(t, notices, test.told...)
			if got := d.Ports[0].Pool.Members; !slices.Equal(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// An address in the range of pods needs no server that has it, but must be in the region.
func TestPods_HostIsUnknown_NewMembersHaveKnownAddressesInTheRegion(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*Node)
		want    []octavia.Member
		without []string
	}{
		"known": {
			func(*Node) {},
			[]octavia.Member{podMember("n1", "10.0.0.1", 1), podMember("n1", "10.244.1.1", 1)},
			nil,
		},
		"its server is unknown": {
			func(n *Node) { n.Unverified = true },
			[]octavia.Member{podMember("n1", "10.244.1.1", 1)},
			[]string{"n1"},
		},
		"its region is unknown": {
			func(n *Node) { n.Unverified, n.Unplaced = true, true },
			[]octavia.Member{},
			[]string{"n1"},
		},
	} {
		want, _ := build(t, withPods(pod("n1", "10.244.1.1"), pod("n1", "10.0.0.1")),
			func(in *Input) { test.change(&in.Nodes[0]) })
		got, without := want.Verified(nil)
		if members := got.Ports[0].Pool.Members; !slices.Equal(members, test.want) ||
			!slices.Equal(without, test.without) {
			t.Errorf("%s: the members are %+v without %q, want %+v without %q", name, members,
				without, test.want, test.without)
		}
	}
}

func TestPods_SeveralPortsOneUDP_EachHasItsTargetPort(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withPorts(
		v1.ServicePort{Name: "web", Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080},
		v1.ServicePort{Name: "dns", Protocol: v1.ProtocolUDP, Port: 53, NodePort: 30053},
	), withPods(pod("n1", "10.244.1.1")), func(in *Input) {
		in.Pods.Endpoints[0].Ports = []discoveryv1.EndpointPort{
			endpointPort("dns", v1.ProtocolUDP, 5353), endpointPort("web", v1.ProtocolTCP, 8080),
		}
	})
	var got []int
	for _, port := range d.Ports {
		for _, m := range port.Pool.Members {
			got = append(got, m.Port)
		}
	}
	if want := []int{8080, 5353}; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
}

// The node that has the pod matters to kube-proxy, and not to a load balancer that forwards to it.
func TestPods_TrafficPolicyLocal_MonitorChecksThePod(t *testing.T) {
	t.Parallel()
	d, notices := build(t, withPods(pod("n1", "10.244.1.1")), withLocal, withMonitor)
	wantTold(t, notices)
	pool := d.Ports[0].Pool
	if pool.Monitor == nil || pool.Monitor.Type != octavia.MonitorTCP ||
		pool.Members[0].MonitorPort != 0 {
		t.Errorf("monitor %+v, members %+v", pool.Monitor, pool.Members)
	}
	_, notices = build(t, withPods(pod("n1", "10.244.1.1")), withLocal)
	wantTold(t, notices)
}

func TestPods_SecurityGroup_OpensTheTargetPortsOnAllNodes(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withPods(pod("n1", "10.244.1.1"), pod("n2", "10.244.2.1")), withLocal, managed)
	if want := []neutron.Rule{let("tcp", 8080, "10.0.0.0/16")}; !slices.Equal(
		d.SecurityGroup.Rules, want) {
		t.Errorf("rules %+v, want %+v", d.SecurityGroup.Rules, want)
	}
	var nodes []string
	for _, backend := range d.Backends {
		nodes = append(nodes, backend.Node)
	}
	if want := []string{"n1", "n2"}; !slices.Equal(nodes, want) {
		t.Errorf("nodes %v, want %v", nodes, want)
	}
}

// ovn keeps the addresses of clients, so that the ports of pods admit the same clients as node
// ports.
func TestPods_SourceRangesWithOVN_RulesOpenTheTargetPortsToThem(t *testing.T) {
	t.Parallel()
	ranges := func(in *Input) { in.Settings.SourceRanges = []string{"192.0.2.0/24"} }
	d, notices := build(t, withPods(pod("n1", "10.244.1.1")), ranges, managed, withFeatures(ovn()))
	wantTold(t, notices)
	if want := []neutron.Rule{let("tcp", 8080, "192.0.2.0/24")}; !slices.Equal(
		d.SecurityGroup.Rules, want) {
		t.Errorf("rules %+v, want %+v", d.SecurityGroup.Rules, want)
	}
	_, notices = build(t, withPods(pod("n1", "10.244.1.1")), ranges, withFeatures(ovn()))
	wantTold(t, notices, "LoadBalancerSourceRangesIgnored!")
}

// A rollout may change the number of a named port. The last pods of the old number are no members
// of ovn, but their open connections must go on.
func TestPods_DrainingWithOVN_TheirPortStaysOpen(t *testing.T) {
	t.Parallel()
	old := func(in *Input) {
		before := *in.Pods.Endpoints[0]
		before.Endpoints = []discoveryv1.Endpoint{leaving(pod("n1", "10.244.1.2"))}
		before.Ports = []discoveryv1.EndpointPort{endpointPort("http", v1.ProtocolTCP, 9090)}
		in.Pods.Endpoints = append(in.Pods.Endpoints, &before)
	}
	d, _ := build(t, withPods(pod("n1", "10.244.1.1")), old, managed, withFeatures(ovn()))
	open := map[int]bool{}
	for _, rule := range d.SecurityGroup.Rules {
		open[rule.PortMin] = true
	}
	if !open[8080] || !open[9090] {
		t.Errorf("rules %+v, want some for 8080 and 9090", d.SecurityGroup.Rules)
	}
	if got := d.Ports[0].Pool.Members; len(got) != 1 || got[0].Port != 8080 {
		t.Errorf("members %+v", got)
	}
}

// A pod that fails its readiness probe for a moment, or that is ending and no longer ready, is no
// member, but its open connections must go on.
func TestPods_NotReady_TheirPortStaysOpen(t *testing.T) {
	t.Parallel()
	for name, features := range map[string]Features{"amphora": latest(), "ovn": ovn()} {
		for _, isEnding := range []bool{false, true} {
			idle := pod("n1", "10.244.1.1")
			idle.Conditions = discoveryv1.EndpointConditions{
				Ready: new(false), Serving: new(false), Terminating: &isEnding,
			}
			d, _ := build(t, withPods(idle), managed, withFeatures(features))
			if !slices.ContainsFunc(d.SecurityGroup.Rules,
				func(r neutron.Rule) bool { return r.PortMin == 8080 }) {
				t.Errorf("%s, ending %t: rules %+v, want one for 8080", name, isEnding,
					d.SecurityGroup.Rules)
			}
			if got := d.Ports[0].Pool.Members; len(got) > 0 {
				t.Errorf("%s, ending %t: members %+v", name, isEnding, got)
			}
		}
	}
}

// The nodes' ports are in their own subnet, whichever the members' is, and pods on a node that
// drains serve until they end.
func TestPods_SecurityGroup_NodesKeepItInAnySubnetAndWhileTheyDrain(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withPods(pod("n1", "10.244.1.1")), managed, withFeatures(ovn()),
		func(in *Input) {
			in.Nodes = []Node{{Node: node("n1", "10.0.0.1"), Draining: true}}
		})
	if len(d.Backends) != 1 || d.Backends[0].Node != "n1" || d.Backends[0].SubnetID != "" {
		t.Errorf("backends %+v", d.Backends)
	}
	if got := d.Ports[0].Pool.Members; len(got) != 1 || got[0].Address != "10.244.1.1" {
		t.Errorf("members %+v", got)
	}
}

// The next hop to the pods of a node is any of its InternalIPs, also one outside of the members'
// subnet.
func TestPods_NodesHaveSeveralAddresses_EachInternalPortHasTheSecurityGroup(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withPods(pod("n1", "10.244.1.1")), managed,
		withNodes(node("n1", "172.16.0.1", "10.0.0.1", "ExternalIP:203.0.113.1"),
			node("n2", "ExternalIP:203.0.113.2")),
		func(in *Input) { in.Places.Member.Range = netip.MustParsePrefix("10.0.0.0/16") })
	var got []string
	for _, backend := range d.Backends {
		got = append(got, backend.Address)
	}
	if want := []string{"10.0.0.1", "172.16.0.1", "203.0.113.2"}; !slices.Equal(got, want) {
		t.Errorf("backends at %q, want %q", got, want)
	}
}

// A route to the pods is on the router of the VIP's subnet.
func TestResolve_PodsAreMembers_TheirSubnetIsTheVIPs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	in := Input{
		Service: service(v1.IPv4Protocol), Pods: &Pods{},
		Nodes:    []Node{{Node: s.addNode("a", "10.0.0.11")}},
		Settings: settings.Settings{Internal: true, NetworkID: s.front},
	}
	existing := &octavia.LoadBalancer{VIP: octavia.VIP{SubnetID: s.frontV4, NetworkID: s.front}}
	for _, manage := range []bool{false, true} {
		for _, named := range []string{"", s.v4} {
			in.Settings.ManageSecurityGroups, in.Settings.MemberSubnetID = manage, named
			places, _, err := Resolve(t.Context(), s.api, in, existing)
			if err != nil || places.Member.ID != s.frontV4 {
				t.Errorf("member subnet %q: found %+v, %v", named, places, err)
			}
		}
	}
}

// A VIP to which no member belongs would be an address that does not answer.
func TestResolve_PodsOfOneFamilyAreReached_OVNHasNoVIPOfTheOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nodes := []Node{{Node: s.addNode("a", "10.0.0.11", "fd00::11")}}
	for ranges, want := range map[string]int{"10.244.0.0/16": 0, "fd00:244::/32": 1} {
		places, _, err := Resolve(t.Context(), s.api, Input{
			Service: service(v1.IPv4Protocol, v1.IPv6Protocol),
			Pods: &Pods{Ranges: []netip.Prefix{
				netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix(ranges),
			}},
			Nodes:    nodes,
			Settings: settings.Settings{Internal: true},
			Features: FeaturesOf(octavia.ProviderOVN, 30, false),
		}, nil)
		if err != nil || len(places.AdditionalVIPs) != want {
			t.Errorf("%s: found %+v, %v", ranges, places, err)
		}
	}
}

// An amphora sends packets to pods by the gateway of its subnet, and the driver of ovn attaches a
// load balancer to the router that is the gateway.
func TestResolve_PodsRouterIsNotTheGateway_PodsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	gateway := s.AddRouter(openstacktest.Router{Subnets: []string{s.frontV4}})
	other := s.AddRouter(openstacktest.Router{})
	s.AddPort(openstacktest.Port{
		NetworkID: s.front, DeviceID: other, DeviceOwner: "network:router_interface",
		FixedIPs: []openstacktest.FixedIP{{SubnetID: s.frontV4, Address: "172.16.0.254"}},
	})
	for why, features := range map[string]Features{
		"is not the next hop to 10.244.0.0/16 in": latest(),
		"is not the gateway of":                   ovn(),
	} {
		in := Input{
			Service: service(v1.IPv4Protocol),
			Pods: &Pods{RouterID: other, Ranges: []netip.Prefix{
				netip.MustParsePrefix("fd00:244::/32"), netip.MustParsePrefix("10.244.0.0/16"),
			}},
			Settings: settings.Settings{Internal: true, SubnetID: s.frontV4},
			Features: features,
		}
		var unrouted *UnroutedPodsError
		_, _, err := Resolve(t.Context(), s.api, in, nil)
		if !errors.As(err, &unrouted) || unrouted.Why != why {
			t.Errorf("%v, want that the router %s", err, why)
		}
		in.Pods.RouterID = gateway
		if _, _, err := Resolve(t.Context(), s.api, in, nil); err != nil {
			t.Error(err)
		}
	}
}

// The network of a named port is known before the load balancer exists.
func TestResolve_PodsAreMembersAndAPortIsNamed_TheirSubnetIsInThePortsNetwork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	places, _, err := Resolve(t.Context(), s.api, Input{
		Service: service(v1.IPv4Protocol), Pods: &Pods{},
		Nodes:    []Node{{Node: s.addNode("a", "10.0.0.11")}},
		Settings: settings.Settings{Internal: true, PortID: "port", ManageSecurityGroups: true},

		PortNetworkID: s.front,
	}, nil)
	if err != nil || places.Member.ID != s.frontV4 || places.Member.CIDR != "172.16.0.0/24" {
		t.Errorf("found %+v, %v", places, err)
	}
}

// BenchmarkBuild_1000Pods decides the members of a Service with two ports, whose 1,000 pods are on
// 100 nodes, as each step of a rollout does.
func BenchmarkBuild_1000Pods(b *testing.B) {
	const hosts, podsOfHost = 100, 10
	var nodes []*v1.Node
	var pods []discoveryv1.Endpoint
	for host := range hosts {
		name := fmt.Sprint("n", host)
		nodes = append(nodes, node(name, fmt.Sprintf("10.0.1.%d", host+1)))
		for p := range podsOfHost {
			pods = append(pods, pod(name, fmt.Sprintf("10.244.%d.%d", host, p+1)))
		}
	}
	in := given(managed, withNodes(nodes...), withPods(pods...), withPorts(
		v1.ServicePort{Name: "http", Protocol: v1.ProtocolTCP, Port: 80},
		v1.ServicePort{Name: "https", Protocol: v1.ProtocolTCP, Port: 443},
	))
	slice := in.Pods.Endpoints[0]
	slice.Ports = append(slice.Ports, endpointPort("https", v1.ProtocolTCP, 8443))
	b.ReportAllocs()
	for b.Loop() {
		d, _, err := Build(in)
		if err != nil {
			b.Fatal(err)
		}
		for i, port := range d.Ports {
			if got := len(port.Pool.Members); got != hosts*podsOfHost {
				b.Fatalf("port %d has %d members, want %d", i, got, hosts*podsOfHost)
			}
		}
	}
}
