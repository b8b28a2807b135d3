package desired

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

var none = map[string]int{}

func TestResolve_EverythingIsNamed_OnlyTheExternalNetworksAreLookedUpOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	calls := map[string]int{"network_list": 1, "subnet_list": 1}
	for _, is := range []*octavia.LoadBalancer{nil, existingIn(s.frontV4, s.front)} {
		got := s.mustResolve(lookup{
			Settings: settings.Settings{
				SubnetID: s.frontV4, NetworkID: s.front, MemberSubnetID: s.v4,
				FloatingNetworkID: s.external,
			},
			Existing: is,
		})
		s.wantCalls(calls)
		calls = none
		if got.VIP.SubnetID != s.frontV4 || got.VIP.NetworkID != s.front || got.Member.ID != s.v4 ||
			got.FloatingNetworkID != s.external || got.FloatingSubnetIDs != nil {
			t.Errorf("found %+v", got)
		}
	}
}

func TestResolve_NothingIsNamed_TheNodesSubnet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nodes := []*v1.Node{
		s.addNode("b", "10.0.0.12", "fd00::12"),
		s.addNode("a", "10.0.0.11", "fd00::11"),
	}
	for family, want := range map[v1.IPFamily]string{
		v1.IPv4Protocol: s.v4, v1.IPv6Protocol: s.v6,
		"": s.v4,
	} {
		var families []v1.IPFamily
		if family != "" {
			families = append(families, family)
		}
		got := s.mustResolve(lookup{
			Settings: settings.Settings{Internal: true},
			Service:  service(families...), Nodes: nodes,
		})
		if got.VIP != (octavia.VIP{SubnetID: want}) || got.Member.ID != want ||
			got.FloatingNetworkID != "" {
			t.Errorf("%s: found %+v, want subnet %s", family, got, want)
		}
	}
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.mustResolve(lookup{Settings: settings.Settings{Internal: true}, Nodes: nodes})
	s.wantCalls(map[string]int{"port_list": 1})
	if c := s.Calls()[0]; !strings.Contains(c.Query, "device_id=server-of-a&") ||
		strings.Contains(c.Query, "server-of-b") {
		t.Errorf("the query is %s, want only the first node by name", c.Query)
	}
	s.mustResolve(lookup{Settings: settings.Settings{Internal: true}, Nodes: nodes})
	s.wantCalls(none)
}

// OCCM reads the first node of an unordered list, and fails if that has no provider ID.
func TestResolve_NodesThatShowNoSubnet_DoNotMakeItFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	unnamed := serverNode("a", "10.0.0.10")
	unnamed.Spec.ProviderID = ""
	foreign := serverNode("b", "10.0.0.10")
	foreign.Spec.ProviderID = "aws:///i-1"
	without := s.addNode("c")
	elsewhere := s.addNode("d", "10.0.0.13")
	elsewhere.Status.Addresses[0].Address = "192.168.7.7"
	leaving := s.addNode("e", "10.0.0.14")
	leaving.Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
	good := s.addNode("f", "10.0.0.15")
	all := []*v1.Node{unnamed, foreign, without, elsewhere, leaving, good}
	for _, manage := range []bool{false, true} {
		got := s.mustResolve(
			lookup{
				Settings: settings.Settings{Internal: true, ManageSecurityGroups: manage},
				Nodes:    all,
			})
		if got.VIP.SubnetID != s.v4 || got.Member.ID != s.v4 {
			t.Errorf("found %+v", got)
		}
		slices.Reverse(all)
	}
	if n := s.Counts()["port_list"]; n > 2 {
		t.Errorf("%d lists of ports", n)
	}
}

func TestResolve_NoNodeYet_WaitsForOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	unnamed := serverNode("a", "10.0.0.10")
	unnamed.Spec.ProviderID = ""
	excluded := s.addNode("b", "10.0.0.11")
	excluded.Labels[v1.LabelNodeExcludeBalancers] = ""
	for name, nodes := range map[string][]*v1.Node{
		"none": nil, "none that tells": {unnamed},
		"none that may be a member": {excluded},
	} {
		_, _, err := s.resolve(lookup{Settings: settings.Settings{Internal: true}, Nodes: nodes})
		if !errors.Is(err, ErrNoNode) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// The node is created, and then its port.
	late := serverNode("c", "10.0.0.12")
	if _, _, err := s.resolve(
		lookup{Settings: settings.Settings{Internal: true}, Nodes: []*v1.Node{late}}); err == nil {
		t.Error("a node without a port resulted in a subnet")
	}
	s.addNode("c", "10.0.0.12")
	if got := s.mustResolve(lookup{
		Settings: settings.Settings{Internal: true},
		Nodes:    []*v1.Node{late},
	}); got.VIP.SubnetID != s.v4 {
		t.Errorf("found %+v", got)
	}
}

// Without a node OCCM creates no load balancer, even if the settings name its place.
func TestResolve_PlaceIsNamed_WaitsForNoNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, c := range map[string]struct {
		settings settings.Settings
		want     octavia.VIP
		member   string
	}{
		"subnet":  {settings.Settings{SubnetID: s.frontV4}, octavia.VIP{SubnetID: s.frontV4}, s.frontV4},
		"network": {settings.Settings{NetworkID: s.front}, octavia.VIP{NetworkID: s.front}, ""},
		"port":    {settings.Settings{PortID: "port", SubnetID: s.frontV4}, octavia.VIP{PortID: "port"}, s.frontV4},
	} {
		c.settings.Internal = true
		got := s.mustResolve(lookup{Settings: c.settings})
		s.wantCalls(none)
		if got.VIP != c.want || got.Member.ID != c.member {
			t.Errorf("%s: found %+v", name, got)
		}
	}
}

func TestResolve_SelectorChooses_TheSubnetIsOfAChosenNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.AddSubnet(openstacktest.Subnet{NetworkID: s.front, CIDR: "172.16.9.0/24"})
	first := s.addNode("a", "10.0.0.11")
	s.AddPort(openstacktest.Port{
		NetworkID: s.front, DeviceID: "server-of-z",
		FixedIPs: []openstacktest.FixedIP{{SubnetID: other, Address: "172.16.9.9"}},
	})
	chosen := serverNode("z", "172.16.9.9")
	chosen.Labels["zone"] = "front"
	for selector, want := range map[string]string{
		"": s.v4, "zone=front": other,
		"zone=nowhere": s.v4,
	} {
		got := s.mustResolve(lookup{
			Settings: settings.Settings{
				Internal:     true,
				NodeSelector: settings.ParseNodeSelector(selector),
			},
			Nodes: []*v1.Node{first, chosen},
		})
		if got.VIP.SubnetID != want || got.Member.ID != want {
			t.Errorf("%q: found %+v, want %s", selector, got, want)
		}
	}
}

// OCCM uses another subnet for the members after a change of a node than after a change
// of the Service. fxccm uses the same subnet for both, before and after the creation of the load
// balancer.
func TestResolve_MemberSubnet_IsTheSameBeforeAndAfter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nodes := []*v1.Node{s.addNode("a", "10.0.0.11")}
	for name, c := range map[string]struct {
		settings settings.Settings
		want     string
		vip      string
	}{
		"member subnet": {settings.Settings{MemberSubnetID: s.v4, SubnetID: s.frontV4}, s.v4, s.frontV4},
		"VIP subnet":    {settings.Settings{SubnetID: s.frontV4}, s.frontV4, s.frontV4},
		"VIP network":   {settings.Settings{NetworkID: s.front}, s.v4, s.frontV4},
		"VIP port":      {settings.Settings{PortID: "port"}, s.v4, s.frontV4},
		"nothing":       {settings.Settings{}, s.v4, s.v4},
	} {
		c.settings.Internal = true
		for _, is := range []*octavia.LoadBalancer{nil, existingIn(c.vip, "whatever")} {
			got := s.mustResolve(lookup{Settings: c.settings, Nodes: nodes, Existing: is})
			if got.Member.ID != c.want {
				t.Errorf("%s, existing %v: members in %q, want %q", name, is != nil, got.Member.ID,
					c.want)
			}
		}
	}
}

// Address and subnet of a member are one choice.
func TestResolve_NodesHaveSeveralAddresses_ThoseInTheMemberSubnetAreFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nodes := []*v1.Node{s.addNode("a", "10.0.0.11"), s.addNode("b", "10.0.0.12")}
	nodes[1].Status.Addresses = append(nodes[1].Status.Addresses,
		v1.NodeAddress{Type: v1.NodeInternalIP, Address: "172.16.0.12"})
	for name, c := range map[string]struct {
		settings settings.Settings
		nodes    []*v1.Node
		want     string
		lists    int
	}{
		"member subnet":           {settings.Settings{MemberSubnetID: s.frontV4}, nodes, "172.16.0.0/24", 1},
		"the nodes decide":        {settings.Settings{}, nodes, "10.0.0.0/16", 1},
		"one address each":        {settings.Settings{MemberSubnetID: s.frontV4}, nodes[:1], "", 0},
		"only the VIP's is named": {settings.Settings{SubnetID: s.frontV4}, nodes, "", 0},
		"one that is not visible": {settings.Settings{MemberSubnetID: "hidden"}, nodes, "", 1},
		"VIP and member are named": {
			settings.Settings{MemberSubnetID: s.v4, SubnetID: s.frontV4}, nodes, "10.0.0.0/16", 1,
		},
		"VIP and member are named alike": {
			settings.Settings{MemberSubnetID: s.frontV4, SubnetID: s.frontV4},
			nodes,
			"172.16.0.0/24", 1,
		},
		"only the VIP's is named, in cloud.conf": {
			settings.Settings{DefaultMemberSubnetID: s.frontV4, SubnetID: s.frontV4}, nodes, "", 0,
		},
		"the VIP's is named in cloud.conf, and another one": {
			settings.Settings{DefaultMemberSubnetID: s.v4, SubnetID: s.frontV4},
			nodes,
			"10.0.0.0/16", 1,
		},
	} {
		c.settings.Internal = true
		if c.settings.SubnetID == "" && c.settings.MemberSubnetID != "" {
			c.settings.NetworkID = s.front
		}
		got := s.mustResolve(lookup{Settings: c.settings, Nodes: c.nodes})
		text := ""
		if got.Member.Range.IsValid() {
			text = got.Member.Range.String()
		}
		if text != c.want {
			t.Errorf("%s: found %+v, want the range %q", name, got, c.want)
		}
		if n := s.Counts()["subnet_list"]; n > c.lists {
			t.Errorf("%s: %d lists of subnets, want at most %d", name, n, c.lists)
		}
	}
}

// With only a network and managed security groups OCCM looks up the subnet "", and
// crashes.
func TestResolve_NetworkAloneAndSecurityGroups(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	in := lookup{Settings: settings.Settings{
		Internal: true, NetworkID: s.front,
		ManageSecurityGroups: true,
	}}
	for name, c := range map[string]struct {
		nodes    []*v1.Node
		existing *octavia.LoadBalancer
		cidr     string
	}{
		"new, no node":      {nil, nil, "172.16.0.0/24"},
		"existing, no node": {nil, existingIn(s.frontV4, s.front), "172.16.0.0/24"},
		"new":               {[]*v1.Node{s.addNode("a", "10.0.0.11")}, nil, "10.0.0.0/16"},
		"existing":          {[]*v1.Node{s.addNode("a", "10.0.0.12")}, existingIn(s.frontV4, s.front), "10.0.0.0/16"},
	} {
		in.Nodes, in.Existing = c.nodes, c.existing
		if got := s.mustResolve(in); got.Member.CIDR != c.cidr || got.Member.ID == "" {
			t.Errorf("%s: members in %+v, want %s", name, got.Member, c.cidr)
		}
	}
	in = lookup{Settings: settings.Settings{
		Internal: true, PortID: "port",
		ManageSecurityGroups: true,
	}}
	if _, _, err := s.resolve(in); !errors.Is(err, ErrNoNode) {
		t.Errorf("a port alone, no node: error %v", err)
	}
}

func TestResolve_SecurityGroups_SubnetIsRemembered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	in := lookup{Settings: settings.Settings{
		Internal: true, SubnetID: s.v4,
		ManageSecurityGroups: true,
	}}
	if got := s.mustResolve(in); got.Member.CIDR != "10.0.0.0/16" || got.Member.IPv6 {
		t.Errorf("members in %+v", got.Member)
	}
	s.wantCalls(map[string]int{"subnet_list": 1})
	s.mustResolve(in)
	s.wantCalls(none)
	in.Settings.SubnetID = "gone"
	var unseen *UnseenSubnetError
	if _, _, err := s.resolve(in); !errors.As(err, &unseen) || unseen.ID != "gone" {
		t.Errorf("error %v", err)
	}
}

func TestResolve_NodeThatWasFirstLeaves_MembersStayInTheSubnetOfTheVIP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.AddSubnet(openstacktest.Subnet{NetworkID: s.front, CIDR: "172.16.9.0/24"})
	s.AddPort(openstacktest.Port{
		NetworkID: s.front, DeviceID: "server-of-b",
		FixedIPs: []openstacktest.FixedIP{{SubnetID: other, Address: "172.16.9.9"}},
	})
	a, b := s.addNode("a", "10.0.0.11"), serverNode("b", "172.16.9.9")
	c := s.addNode("c", "10.0.0.13")
	for name, nodes := range map[string][]*v1.Node{
		"all": {a, b, c}, "without the first": {b, c},
		"without both": {b},
	} {
		want := s.v4
		if len(nodes) == 1 {
			want = other // no node is in the subnet of the load balancer
		}
		got := s.mustResolve(lookup{
			Settings: settings.Settings{Internal: true}, Nodes: nodes,
			Existing: existingIn(s.v4, s.nodes),
		})
		if got.Member.ID != want {
			t.Errorf("%s: members in %s, want %s", name, got.Member.ID, want)
		}
	}
	// The load balancer is elsewhere, for example a user's in which the Service is a guest.
	got := s.mustResolve(lookup{
		Settings: settings.Settings{Internal: true},
		Nodes:    []*v1.Node{a, b, c}, Existing: existingIn(s.frontV4, s.front), Guest: true,
	})
	if got.Member.ID != s.v4 {
		t.Errorf("a guest's members are in %s, want %s", got.Member.ID, s.v4)
	}
}

func TestResolve_NoPortOfANodeIsKnown_MembersAreWhereTheVIPIs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	got := s.mustResolve(lookup{
		Settings: settings.Settings{Internal: true},
		Nodes:    []*v1.Node{serverNode("a", "10.0.0.11")},
		Existing: existingIn(s.frontV4, s.front),
	})
	if got.Member.ID != s.frontV4 || got.VIP.SubnetID != s.frontV4 {
		t.Errorf("found %+v", got)
	}
}

func TestResolve_NeutronFails_NothingIsGuessed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nodes := []*v1.Node{s.addNode("a", "10.0.0.11")}
	s.Inject(openstacktest.Fault{Operation: "*_list", Status: 500})
	for name, in := range map[string]lookup{
		"nodes' subnet":   {Settings: settings.Settings{Internal: true}, Nodes: nodes},
		"members'":        {Settings: settings.Settings{Internal: true, NetworkID: s.front}, Nodes: nodes, Existing: existingIn(s.frontV4, s.front)},
		"security groups": {Settings: settings.Settings{Internal: true, SubnetID: s.v4, ManageSecurityGroups: true}},
		"external":        {Settings: settings.Settings{SubnetID: s.v4}},
		"floating subnet": {Settings: settings.Settings{SubnetID: s.v4, FloatingSubnetID: s.public}},
		"pattern":         {Settings: settings.Settings{SubnetID: s.v4, FloatingNetworkID: s.external, FloatingSubnet: "x"}},
		"IPv6":            {Settings: settings.Settings{NetworkID: s.front}, Service: service(v1.IPv6Protocol)},
		"second family": {
			Settings: settings.Settings{Internal: true, SubnetID: s.v4},
			Service:  service(v1.IPv4Protocol, v1.IPv6Protocol),
			Features: Features{AdditionalVIPs: true},
		},
	} {
		_, _, err := s.resolve(in)
		var impossible *events.Notice
		if err == nil || errors.Is(err, ErrNoNode) || errors.As(err, &impossible) {
			t.Errorf("%s: error %v, want the cloud's", name, err)
		}
	}
}

func TestResolve_IPv6InANetworkAlone_ChoosesItsSubnet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	in := lookup{Settings: settings.Settings{NetworkID: s.nodes}, Service: service(v1.IPv6Protocol)}
	got := s.mustResolve(in)
	s.wantCalls(map[string]int{"subnet_list": 1})
	if got.VIP != (octavia.VIP{SubnetID: s.v6, NetworkID: s.nodes}) ||
		got.FloatingNetworkID != "" {
		t.Errorf("found %+v", got)
	}
	in.Settings.Address = "fd00::77"
	if got := s.mustResolve(in); got.VIP.SubnetID != "" {
		t.Errorf("with an address that determines the subnet: found %+v", got)
	}
	in.Settings = settings.Settings{NetworkID: s.front}
	var impossible *events.Notice
	if _, _, err := s.resolve(in); !errors.As(err, &impossible) ||
		!strings.Contains(err.Error(), "no IPv6 subnet") {
		t.Errorf("error %v", err)
	}
}

// IDs are random, so they do not choose: not for the VIP, and not for that of the second family.
func TestResolve_TwoSubnetsOfAFamily_TheNodesOrTheOldest(t *testing.T) {
	t.Parallel()
	const low, high = "00000000-0000-4000-8000-000000000001", "ffffffff-0000-4000-8000-000000000002"
	for _, ids := range [][2]string{{low, high}, {high, low}} {
		now := clocktesting.NewFakePassiveClock(time.Now())
		s := newSite(t, openstacktest.WithClock(now))
		pair := s.AddNetwork(openstacktest.Network{Name: "pair"})
		s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "172.17.0.0/24"})
		s.AddSubnet(openstacktest.Subnet{ID: ids[0], NetworkID: pair, CIDR: "fd01::/64"})
		now.SetTime(now.Now().Add(time.Minute))
		s.AddSubnet(openstacktest.Subnet{ID: ids[1], NetworkID: pair, CIDR: "fd02::/64"})
		for _, test := range []struct{ address, want string }{
			{"fd00::11", ids[0]}, {"fd01::11", ids[0]}, {"fd02::11", ids[1]},
		} {
			in := lookup{
				Settings: settings.Settings{NetworkID: pair, Internal: true},
				Nodes:    []*v1.Node{serverNode("a", "10.0.0.11", test.address)},
				Features: Features{AdditionalVIPs: true},
			}
			in.Service = service(v1.IPv6Protocol)
			if got := s.mustResolve(in); got.VIP.SubnetID != test.want {
				t.Errorf("node at %s: the VIP is in %s, want %s", test.address, got.VIP.SubnetID,
					test.want)
			}
			in.Service = service(v1.IPv4Protocol, v1.IPv6Protocol)
			if got := s.mustResolve(in).AdditionalVIPs; len(got) != 1 ||
				got[0].SubnetID != test.want {
				t.Errorf("node at %s: the second VIP is %+v, want it in %s", test.address, got,
					test.want)
			}
		}
	}
}

// A load balancer that does not translate between the families needs members of each.
func TestResolve_DualStack_MembersOfTheSecondFamilyAreWhereTheirNodesAre(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	nodes := []*v1.Node{s.addNode("a", "10.0.0.11", "fd00::11")}
	pair := s.AddNetwork(openstacktest.Network{Name: "pair"})
	s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "172.17.0.0/24"})
	pairV6 := s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "fd01::/64"})
	can := Features{AdditionalVIPs: true, MembersOfEachFamily: true}
	for name, test := range map[string]struct {
		in   lookup
		want string
	}{
		"in the nodes' network": {
			in:   lookup{Settings: settings.Settings{Internal: true}, Nodes: nodes, Features: can},
			want: s.v6,
		},
		"in another network": {
			in: lookup{
				Settings: settings.Settings{Internal: true, NetworkID: pair}, Nodes: nodes,
				Features: can,
			},
			want: s.v6,
		},
		"before the first node": {
			in: lookup{
				Settings: settings.Settings{Internal: true, NetworkID: pair}, Features: can,
			},
			want: pairV6,
		},
		"of a load balancer that translates": {
			in: lookup{
				Settings: settings.Settings{Internal: true}, Nodes: nodes,
				Features: Features{AdditionalVIPs: true},
			},
		},
	} {
		test.in.Service = service(v1.IPv4Protocol, v1.IPv6Protocol)
		got := s.mustResolve(test.in)
		if got.AdditionalMember.ID != test.want || got.AdditionalMember.ID == got.Member.ID {
			t.Errorf("%s: the members of the second family are in %q, want %q; of the first in %q",
				name, got.AdditionalMember.ID, test.want, got.Member.ID)
		}
	}
}

// The settings name a subnet for the first family alone.
func TestResolve_DualStackAndASubnetIsNamed_AddressesOfTheSecondFamilyAreInTheirSubnet(
	t *testing.T,
) {
	t.Parallel()
	s := newSite(t)
	nodes := []*v1.Node{
		s.addNode("a", "10.0.0.11", "fd00::11"), s.addNode("b", "10.0.0.12", "fd00::12"),
	}
	nodes[1].Status.Addresses = append([]v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "fd09::12"},
	}, nodes[1].Status.Addresses...)
	pair := s.AddNetwork(openstacktest.Network{Name: "pair"})
	pairV4 := s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "172.17.0.0/24"})
	s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "fd01::/64"})
	got := s.mustResolve(lookup{
		Settings: settings.Settings{Internal: true, SubnetID: pairV4}, Nodes: nodes,
		Service:  service(v1.IPv4Protocol, v1.IPv6Protocol),
		Features: Features{AdditionalVIPs: true, MembersOfEachFamily: true},
	})
	if got.Member.Range.IsValid() || got.AdditionalMember.ID != s.v6 ||
		got.AdditionalMember.Range.String() != "fd00::/64" {
		t.Errorf("found %+v, want members of the second family in %s", got, s.v6)
	}
}

// A VIP to which no member belongs would be an address that does not answer.
func TestResolve_NodesOfOneFamily_OVNHasNoVIPOfTheOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, both := s.addNode("a", "10.0.0.11"), s.addNode("b", "10.0.0.12", "fd00::12")
	of := func(provider string) Features { return FeaturesOf(provider, 30, false) }
	for name, test := range map[string]struct {
		nodes    []*v1.Node
		features Features
		want     int
	}{
		"no node has both":          {[]*v1.Node{one}, of(octavia.ProviderOVN), 0},
		"a node has both":           {[]*v1.Node{one, both}, of(octavia.ProviderOVN), 1},
		"no address is known":       {[]*v1.Node{serverNode("c")}, of(octavia.ProviderOVN), 1},
		"amphora, which translates": {[]*v1.Node{one}, of("amphora"), 1},
	} {
		places, notices, err := s.resolve(lookup{
			Service:  service(v1.IPv4Protocol, v1.IPv6Protocol),
			Settings: settings.Settings{Internal: true, SubnetID: s.v4},
			Nodes:    test.nodes, Features: test.features,
		})
		if err != nil || len(places.AdditionalVIPs) != test.want || len(notices) != 1-test.want {
			t.Errorf("%s: found %+v, %+v, %v", name, places, notices, err)
		}
	}
}

func TestResolve_DualStack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require := service(v1.IPv4Protocol, v1.IPv6Protocol)
	*require.Spec.IPFamilyPolicy = v1.IPFamilyPolicyRequireDualStack
	prefer := service(v1.IPv4Protocol, v1.IPv6Protocol)
	reversed := service(v1.IPv6Protocol, v1.IPv4Protocol)
	can := Features{AdditionalVIPs: true}
	pair := s.AddNetwork(openstacktest.Network{Name: "pair"})
	firstV6 := s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "fd01::/64"})
	secondV6 := s.AddSubnet(openstacktest.Subnet{NetworkID: pair, CIDR: "fd02::/64"})
	paired := existingIn("subnet of the VIP", pair)
	paired.AdditionalVIPs = []octavia.VIP{{SubnetID: firstV6, Address: "fd01::9"}}
	dual := existingIn(s.v4, s.nodes)
	dual.AdditionalVIPs = []octavia.VIP{{SubnetID: s.v6, Address: "fd00::9"}}
	for name, c := range map[string]struct {
		in         lookup
		want       string
		notice     string
		impossible string
		calls      map[string]int
	}{
		"in the VIP's network": {
			in:   lookup{Settings: settings.Settings{NetworkID: s.nodes}, Service: require},
			want: s.v6, calls: map[string]int{"subnet_list": 1},
		},
		"in the network of the VIP's subnet": {
			in: lookup{Settings: settings.Settings{SubnetID: s.v4}, Service: prefer}, want: s.v6,
			calls: map[string]int{"subnet_list": 2},
		},
		"IPv6 first": {
			in: lookup{Settings: settings.Settings{SubnetID: s.v6}, Service: reversed}, want: s.v4,
			calls: map[string]int{"subnet_list": 2},
		},
		"named": {
			in: lookup{
				Settings: settings.Settings{SubnetID: s.frontV4, AdditionalSubnetID: "named"},
				Service:  prefer,
			}, want: "named", calls: none,
		},
		"none, preferred": {
			in: lookup{Settings: settings.Settings{NetworkID: s.front}, Service: prefer},
			notice: "only IPv4 is served: network " + s.front +
				" of the load balancer has no IPv6 subnet", calls: map[string]int{"subnet_list": 1},
		},
		"none, required": {
			in:         lookup{Settings: settings.Settings{NetworkID: s.front}, Service: require},
			impossible: "requires dual stack", calls: map[string]int{"subnet_list": 1},
		},
		"a port": {
			in: lookup{
				Settings: settings.Settings{PortID: "port", SubnetID: s.v4},
				Service:  prefer,
			},
			notice: "name one by additional-subnet-id", calls: none,
		},
		"existing with it":    {in: lookup{Service: require, Existing: dual, Settings: settings.Settings{SubnetID: s.v4}}, want: s.v6, calls: none},
		"existing without it": {in: lookup{Service: require, Existing: existingIn(s.v4, s.nodes), Settings: settings.Settings{SubnetID: s.v4}}, calls: none},
		"existing, another named": {
			in: lookup{
				Service: require, Existing: dual,
				Settings: settings.Settings{SubnetID: s.v4, AdditionalSubnetID: "named"},
			},
			want: "named", calls: none,
		},
		"existing without it, another named": {
			in: lookup{
				Service: require, Existing: existingIn(s.v4, s.nodes),
				Settings: settings.Settings{SubnetID: s.v4, AdditionalSubnetID: "named"},
			},
			calls: none,
		},
		"existing without it, to be recreated": {
			in: lookup{
				Service: require, Existing: existingIn(s.v4, s.nodes),
				Settings: settings.Settings{
					SubnetID: s.v4, AdditionalSubnetID: "named",
					Recreate: true,
				},
			},
			want: "named", calls: none,
		},
		"an address in the first subnet of the VIP's network": {
			in: lookup{Service: prefer, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd01::10",
			}},
			want: firstV6, calls: map[string]int{"subnet_list": 1},
		},
		"an address in the second subnet of the VIP's network": {
			in: lookup{Service: prefer, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd02::10",
			}},
			want: secondV6, calls: map[string]int{"subnet_list": 1},
		},
		"an address elsewhere": {
			in: lookup{Service: prefer, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd03::10",
			}},
			impossible: "spec.loadBalancerIP requests fd03::10, but no subnet of network " + pair +
				" that the project sees contains it",
			calls: map[string]int{"subnet_list": 1},
		},
		"an address, and its subnet is named": {
			in: lookup{Service: prefer, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd03::10", AdditionalSubnetID: "named",
			}},
			want: "named", calls: none,
		},
		"existing with another address": {
			in: lookup{Service: require, Existing: paired, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd02::10", MemberSubnetID: s.v4,
			}},
			want: firstV6, calls: none,
		},
		"existing with another address, to be recreated": {
			in: lookup{Service: require, Existing: paired, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd02::10", MemberSubnetID: s.v4,
				Recreate: true,
			}},
			want: secondV6, calls: map[string]int{"subnet_list": 1},
		},
		"existing, and an address elsewhere, to be recreated": {
			in: lookup{Service: require, Existing: paired, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd03::10", MemberSubnetID: s.v4,
				Recreate: true,
			}},
			want: firstV6, calls: map[string]int{"subnet_list": 1},
			notice: "spec.loadBalancerIP requests fd03::10, but the load balancer keeps its " +
				"addresses: no subnet of network " + pair + " that the project sees contains it",
		},
		"existing without it, and an address elsewhere, to be recreated": {
			in: lookup{
				Service: prefer, Existing: existingIn("vip", pair),
				Settings: settings.Settings{
					NetworkID: pair, AdditionalAddress: "fd03::10", MemberSubnetID: s.v4,
					Recreate: true,
				},
			},
			calls:  map[string]int{"subnet_list": 1},
			notice: "requests fd03::10, but the load balancer keeps its addresses",
		},
		"existing with the address, to be recreated": {
			in: lookup{Service: require, Existing: paired, Settings: settings.Settings{
				NetworkID: pair, AdditionalAddress: "fd01::9", MemberSubnetID: s.v4,
				Recreate: true,
			}},
			want: firstV6, calls: none,
		},
		"a guest": {
			in: lookup{
				Service: require, Existing: dual, Guest: true,
				Settings: settings.Settings{SubnetID: s.v4, AdditionalSubnetID: "named"},
			},
			want: s.v6, calls: none,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.clock.SetTime(s.clock.Now().Add(time.Hour))
			c.in.Settings.Internal, c.in.Features = true, can
			got, notices, err := s.resolve(c.in)
			s.wantCalls(c.calls)
			var impossible *events.Notice
			if errors.As(err, &impossible) != (c.impossible != "") || err != nil &&
				!strings.Contains(err.Error(), c.impossible) {
				t.Fatalf("error %v, want %q", err, c.impossible)
			}
			subnet := ""
			for _, vip := range got.AdditionalVIPs {
				subnet += vip.SubnetID
			}
			if subnet != c.want {
				t.Errorf("the second VIP is in %q, want %q", subnet, c.want)
			}
			text := ""
			for _, n := range notices {
				text += n.Message
			}
			if !strings.Contains(text, c.notice) || (text == "") != (c.notice == "") {
				t.Errorf("notices %+v, want %q", notices, c.notice)
			}
			c.in.Features = Features{}
			if got, notices, err := s.resolve(c.in); err != nil || len(notices) > 0 ||
				got.AdditionalVIPs != nil {
				t.Errorf("without a second VIP: found %+v, notices %v, error %v",
					got.AdditionalVIPs, notices, err)
			}
		})
	}
}

func TestResolve_FloatingIP(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Now())
	s := newSite(t, openstacktest.WithClock(now))
	now.SetTime(now.Now().Add(time.Minute))
	second := s.AddSubnet(openstacktest.Subnet{
		Name: "public-2", NetworkID: s.external,
		CIDR: "198.51.100.0/24", Tags: []string{"alice"},
	})
	v6 := s.AddSubnet(
		openstacktest.Subnet{Name: "public-3", NetworkID: s.external, CIDR: "2001:db8::/64"})
	const hidden = "44444444-4444-4444-8444-444444444444"
	all := []string{s.public, second}
	// place is for the network of the VIP, and whether it is external. A place of the floating IP
	// may need one list more.
	place := map[string]int{"network_list": 1, "subnet_list": 2}
	placeAndMore := map[string]int{"network_list": 1, "subnet_list": 3}
	for name, c := range map[string]struct {
		in         lookup
		network    string
		subnets    []string
		impossible string
		isPublic   bool
		calls      map[string]int
	}{
		"internal": {in: lookup{Settings: settings.Settings{Internal: true}}, calls: none},
		"IPv6":     {in: lookup{Service: service(v1.IPv6Protocol)}, calls: none},
		"has one":  {in: lookup{HasFloatingIP: true, Settings: settings.Settings{FloatingSubnet: "nothing-fits"}}, calls: place},
		"attached": {in: lookup{IsFloatingIPAttached: true, Settings: settings.Settings{FloatingSubnet: "nothing-fits"}}, calls: none},
		"public VIP": {
			in: lookup{
				Existing: existingIn(s.public, s.external),
				Settings: settings.Settings{FloatingSubnet: "nothing-fits"},
			},
			isPublic: true, calls: map[string]int{"network_list": 1, "subnet_list": 1},
		},
		"guest":         {in: lookup{Guest: true, Settings: settings.Settings{FloatingSubnet: "nothing-fits"}}, calls: none},
		"network":       {in: lookup{Settings: settings.Settings{FloatingNetworkID: s.external}}, network: s.external, calls: place},
		"nothing named": {in: lookup{}, network: s.external, calls: place},
		"subnet": {
			in:      lookup{Settings: settings.Settings{FloatingSubnetID: second}},
			network: s.external, subnets: []string{second},
			calls: placeAndMore,
		},
		"subnet, others": {
			in: lookup{Settings: settings.Settings{
				FloatingSubnetID: second,
				FloatingSubnet:   "public-1",
			}}, network: s.external, subnets: []string{second},
			calls: placeAndMore,
		},
		"subnet of the network": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.external,
				FloatingSubnetID:  second,
			}},
			network: s.external, subnets: []string{second}, calls: placeAndMore,
		},
		"subnet of another network": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.front,
				FloatingSubnetID:  second,
			}},
			impossible: "is in network " + s.external, calls: placeAndMore,
		},
		// The subnet may exist in Neutron: subnets of an external network are hidden from projects
		// that may create floating IPs in them.
		"hidden subnet": {
			in:      lookup{Settings: settings.Settings{FloatingSubnetID: hidden}},
			network: s.external, subnets: []string{hidden},
			calls: placeAndMore,
		},
		"hidden subnet of the network": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: "partners",
				FloatingSubnetID:  hidden,
			}},
			network: "partners", subnets: []string{hidden}, calls: placeAndMore,
		},
		"subnet of IPv6": {in: lookup{Settings: settings.Settings{FloatingSubnetID: v6}}, impossible: "IPv6 subnet", calls: placeAndMore},
		"pattern": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.external,
				FloatingSubnet:    "public-*",
			}},
			network: s.external, subnets: all, calls: placeAndMore,
		},
		"pattern without a network": {
			in:      lookup{Settings: settings.Settings{FloatingSubnet: "!public-1"}},
			network: s.external, subnets: []string{second},
			calls: placeAndMore,
		},
		"tags": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID:  s.external,
				FloatingSubnetTags: "&alice,bob",
			}},
			network: s.external, subnets: []string{s.public},
			calls: placeAndMore,
		},
		"both": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.external,
				FloatingSubnet:    "~.*-2", FloatingSubnetTags: "alice,carol",
			}},
			network: s.external, subnets: []string{second}, calls: placeAndMore,
		},
		"nothing fits": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.external,
				FloatingSubnet:    "other-*", FloatingSubnetTags: "carol",
			}},
			impossible: `has a name matching floating-subnet "other-*" and tags matching floating-subnet-tags "carol"`,
			calls:      placeAndMore,
		},
		"IPv6 fits": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.external,
				FloatingSubnet:    "public-3",
			}},
			impossible: "has a name", calls: placeAndMore,
		},
		"no pattern": {in: lookup{Settings: settings.Settings{FloatingNetworkID: s.external, FloatingSubnet: "~("}}, impossible: "pattern", calls: place},
		"address asked for": {
			in: lookup{Settings: settings.Settings{
				FloatingNetworkID: s.external,
				FloatingSubnet:    "nothing-fits", Address: "203.0.113.7",
			}},
			network: s.external, calls: place,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.clock.SetTime(s.clock.Now().Add(time.Hour))
			c.in.Settings.SubnetID = s.v4
			got, _, err := s.resolve(c.in)
			s.wantCalls(c.calls)
			var impossible *events.Notice
			if errors.As(err, &impossible) != (c.impossible != "") || err != nil &&
				!strings.Contains(err.Error(), c.impossible) {
				t.Fatalf("error %v, want %q", err, c.impossible)
			}
			if got.IsPublic != c.isPublic {
				t.Errorf("the VIP is public = %t, want %t", got.IsPublic, c.isPublic)
			}
			if got.FloatingNetworkID != c.network ||
				!slices.Equal(got.FloatingSubnetIDs, c.subnets) {
				t.Errorf("found %q %q, want %q %q", got.FloatingNetworkID, got.FloatingSubnetIDs,
					c.network, c.subnets)
			}
		})
	}
}

func TestResolve_NoExternalNetwork_NoPlaceForAFloatingIP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Inject(openstacktest.Fault{
		Operation: "network_list",
		Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
			return 200, []byte(`{"networks":[]}`)
		},
	})
	got := s.mustResolve(
		lookup{Settings: settings.Settings{SubnetID: s.v4, FloatingSubnet: "public-*"}})
	if got.FloatingNetworkID != "" || got.FloatingSubnetIDs != nil {
		t.Errorf("found %+v", got)
	}
}

func TestResolve_200Services_CostAboutAsMuchAsOne(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var nodes []*v1.Node
	for i := range 50 {
		nodes = append(nodes, s.addNode(fmt.Sprintf("node-%02d", i), fmt.Sprintf("10.0.1.%d", i+1)))
	}
	s.ForgetCalls()
	errs := make(chan error, 200)
	for range 200 {
		go func() {
			got, _, err := Resolve(t.Context(), s.api, Input{
				Settings: settings.Settings{
					ManageSecurityGroups: true,
					FloatingSubnetTags:   "alice",
				}, Service: service(v1.IPv4Protocol), Nodes: Candidates(nodes, nil, nil, nil),
			}, nil)
			if err == nil &&
				(got.VIP.SubnetID != s.v4 || got.Member.CIDR == "" ||
					len(got.FloatingSubnetIDs) != 1) {
				err = fmt.Errorf("found %+v", got)
			}
			errs <- err
		}()
	}
	for range 200 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, n := range s.Counts() {
		total += n
	}
	if total > 12 {
		t.Errorf("200 Services cost %v", s.Counts())
	}
}
