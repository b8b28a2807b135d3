package desired

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// The rows come from OCCM's Test_nodeAddressForLB.
func TestMemberAddress_EachFamily_IsThatOfOCCM(t *testing.T) {
	t.Parallel()
	const v4, v6 = v1.IPv4Protocol, v1.IPv6Protocol
	for name, test := range map[string]struct {
		addresses []string
		family    v1.IPFamily
		want      string
	}{
		"none":                           {nil, v4, ""},
		"none, any family":               {nil, "", ""},
		"internal":                       {[]string{"10.0.0.1"}, v4, "10.0.0.1"},
		"internal, IPv6":                 {[]string{"fd00::1"}, v6, "fd00::1"},
		"of another family":              {[]string{"10.0.0.1"}, v6, ""},
		"of another family, IPv6":        {[]string{"fd00::1"}, v4, ""},
		"external":                       {[]string{"ExternalIP:192.0.2.1"}, v4, "192.0.2.1"},
		"external, any family":           {[]string{"ExternalIP:192.0.2.1"}, "", "192.0.2.1"},
		"internal first":                 {[]string{"10.0.0.1", "ExternalIP:192.0.2.1"}, v4, "10.0.0.1"},
		"internal last":                  {[]string{"ExternalIP:192.0.2.1", "10.0.0.1"}, v4, "10.0.0.1"},
		"internal last, any family":      {[]string{"ExternalIP:192.0.2.1", "fd00::1"}, "", "fd00::1"},
		"two internal":                   {[]string{"10.0.0.2", "10.0.0.1"}, v4, "10.0.0.2"},
		"two families":                   {[]string{"10.0.0.1", "fd00::1"}, v6, "fd00::1"},
		"two families, any":              {[]string{"fd00::1", "10.0.0.1"}, "", "fd00::1"},
		"internal of the other family":   {[]string{"fd00::1", "ExternalIP:192.0.2.1"}, v4, "192.0.2.1"},
		"names":                          {[]string{"ExternalDNS:n.example", "Hostname:n", "InternalDNS:n.local"}, "", ""},
		"a hostname that looks like one": {[]string{"Hostname:10.0.0.1"}, v4, ""},
		"names before":                   {[]string{"ExternalDNS:n.example", "10.0.0.1"}, v4, "10.0.0.1"},
		"not an address":                 {[]string{"10.0.0", "10.0.0.1"}, "", "10.0.0.1"},
		"an address of one link only":    {[]string{"fe80::1%eth0", "fd00::1"}, v6, "fd00::1"},
	} {
		got, ok := memberAddress(node("n1", test.addresses...), test.family, netip.Prefix{})
		if got != test.want || ok != (test.want != "") {
			t.Errorf("%s: %q, %t, want %q", name, got, ok, test.want)
		}
	}
}

func TestMembers_OnePerNodeAndPort(t *testing.T) {
	t.Parallel()
	d, notices := build(t,
		withNodes(node("n3", "10.0.0.1"), node("n1", "10.0.0.3"), node("n2", "fd00::2")),
		withProtocols(v1.ProtocolTCP, v1.ProtocolUDP))
	wantTold(t, notices)
	for i, port := range d.Ports {
		want := []octavia.Member{
			{Name: "n1", Address: "10.0.0.3", Port: 30080 + i, SubnetID: "member subnet", Weight: 1},
			{Name: "n3", Address: "10.0.0.1", Port: 30080 + i, SubnetID: "member subnet", Weight: 1},
		}
		if !slices.Equal(port.Pool.Members, want) {
			t.Errorf("%s: %+v, want %+v", port.Name, port.Pool.Members, want)
		}
	}
}

func TestMembers_SeveralAddresses_TheOneInTheMemberSubnet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		subnet string
		want   []string
	}{
		"the first one":  {"10.0.0.0/24", []string{"10.0.0.1", "10.0.0.2"}},
		"the second one": {"10.7.0.0/24", []string{"10.7.0.1", "10.0.0.2"}},
		"an external one": {
			"192.0.2.0/24", []string{"192.0.2.1", "10.0.0.2"},
		},
		"none": {"172.16.0.0/24", []string{"10.0.0.1", "10.0.0.2"}},
	} {
		d, notices := build(t, withNodes(node("n1", "10.0.0.1", "10.7.0.1", "ExternalIP:192.0.2.1"),
			node("n2", "10.0.0.2")),
			func(in *Input) { in.Places.Member.Range = netip.MustParsePrefix(test.subnet) })
		wantTold(t, notices)
		var got []string
		for _, b := range d.Backends {
			got = append(got, b.Address)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the members are %q, want %q", name, got, test.want)
		}
	}
}

// OVN forwards packets, so the members of one family do not serve the VIP of the other.
func TestMembers_DualStackWithOVN_AreOfEachFamily(t *testing.T) {
	t.Parallel()
	withBoth := func(in *Input) {
		dualStack(in)
		in.Features = FeaturesOf(octavia.ProviderOVN, 30, false)
		in.Settings.ManageSecurityGroups = true
		in.Settings.SourceRanges = []string{"192.0.2.0/24", "2001:db8::/64"}
		in.Places.AdditionalMember.Subnet = neutron.Subnet{ID: "six", CIDR: "fd00::/64", IPv6: true}
	}
	both, one := node("n1", "10.0.0.1", "fd00::1"), node("n2", "10.0.0.2")
	d, notices := build(t, withNodes(both, one), withBoth)
	wantTold(t, notices)
	want := []octavia.Member{
		{Name: "n1", Address: "10.0.0.1", Port: 30080, SubnetID: "member subnet", Weight: 1},
		{Name: "n1", Address: "fd00::1", Port: 30080, SubnetID: "six", Weight: 1},
		{Name: "n2", Address: "10.0.0.2", Port: 30080, SubnetID: "member subnet", Weight: 1},
	}
	if got := d.Ports[0].Pool.Members; !slices.Equal(got, want) {
		t.Errorf("the members are %+v, want %+v", got, want)
	}
	if len(d.Backends) != len(want) {
		t.Errorf("the backends are %+v, want one for each member", d.Backends)
	}
	var rules []string
	for _, r := range d.SecurityGroup.Rules {
		rules = append(rules, r.EtherType+" "+r.RemotePrefix)
	}
	if !slices.Equal(rules, []string{"IPv4 192.0.2.0/24", "IPv6 2001:db8::/64"}) {
		t.Errorf("the rules are %q, want one for each family", rules)
	}
	// The second VIP of an existing load balancer stays.
	_, notices = build(t, withNodes(one), withBoth)
	wantTold(t, notices, "LoadBalancerWithoutMembers!")
	// A load balancer with one VIP has members of its family.
	d, _ = build(t, withNodes(both, one), withBoth,
		func(in *Input) { in.Places.AdditionalVIPs = nil })
	if got := d.Ports[0].Pool.Members; !slices.Equal(got, []octavia.Member{want[0], want[2]}) {
		t.Errorf("the members of a single VIP are %+v", got)
	}
}

func TestMembers_NoSubnetNamed(t *testing.T) {
	t.Parallel()
	d, _ := build(t, func(in *Input) { in.Places.Member = MemberPlace{} })
	if m := d.Ports[0].Pool.Members[0]; m.SubnetID != "" || d.Backends[0].SubnetID != "" {
		t.Errorf("%+v, %+v", m, d.Backends[0])
	}
}

// allocateLoadBalancerNodePorts: false.
func wantClosed(t *testing.T, notices []events.Notice) {
	t.Helper()
	wantTold(t, notices, "LoadBalancerWithoutMembers!")
	if len(notices) > 0 && !strings.Contains(notices[0].Message, "for port 80/TCP, because") {
		t.Errorf("the event is %q, want one about port 80/TCP alone", notices[0].Message)
	}
}

func TestMembers_NoNodePort_HasAWarningAndNoMembers(t *testing.T) {
	t.Parallel()
	d, notices := build(t,
		withPorts(v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80},
			v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 81, NodePort: 30081}))
	wantClosed(t, notices)
	if len(d.Ports[0].Pool.Members) != 0 || len(d.Ports[1].Pool.Members) != 2 ||
		len(d.Backends) != 2 {
		t.Errorf("%+v", d)
	}
	d, notices = build(t, withPorts(v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80}))
	wantClosed(t, notices)
	if len(d.Ports[0].Pool.Members) != 0 || len(d.Backends) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestMembers_ProviderNeedsNoNodePorts_PortWithoutOneHasMembersAtTheServicesPort(t *testing.T) {
	t.Parallel()
	d, notices := build(t, managed,
		withSettings(func(s *settings.Settings) { s.NeedsNoNodePorts = true }),
		withPorts(v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80},
			v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 81, NodePort: 30081}))
	wantTold(t, notices)
	var ports []int
	for _, port := range d.Ports {
		for _, m := range port.Pool.Members {
			ports = append(ports, m.Port)
		}
	}
	if want := []int{80, 80, 30081, 30081}; !slices.Equal(ports, want) {
		t.Errorf("the members have the ports %v, want %v", ports, want)
	}
	if want := []neutron.Rule{
		let("tcp", 80, "10.0.0.0/16"), let("tcp", 30081, "10.0.0.0/16"),
	}; !slices.Equal(d.SecurityGroup.Rules, want) {
		t.Errorf("rules %+v, want %+v", d.SecurityGroup.Rules, want)
	}
}

func TestSerialProvider_HasTheSameMembers(t *testing.T) {
	t.Parallel()
	features := FeaturesOf("f5", 27, true)
	v6 := func(in *Input) {
		withFamilies(v1.IPv6Protocol)(in)
		withNodes(node("n1", "10.0.0.1", "fd00::1"), node("n2"))(in)
	}
	d, _ := build(t, withFeatures(features), v6, withLocal, withMonitor, withPorts(
		v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080},
		v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 81}))
	want := []octavia.Member{{
		Name: "member_n1_fd00::1_30080", Address: "fd00::1", Port: 30080, SubnetID: "member subnet",
		Weight: 1, MonitorPort: 31000,
	}}
	if got := d.Ports[0].Pool.Members; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := d.Ports[1].Pool.Members; len(got) != 0 {
		t.Errorf("no node port, but members %+v", got)
	}
}

// The member subnet comes from Places, regardless of the operation: OCCM's two ways resulted in two
// subnets.
func TestMemberSubnet_IsThatOfThePlaces(t *testing.T) {
	t.Parallel()
	asked := withSettings(func(s *settings.Settings) {
		s.SubnetID, s.MemberSubnetID = "vip subnet", "another"
	})
	for _, name := range []string{"", "kube_service_kubernetes_shop_web"} {
		d, _ := build(t, asked, func(in *Input) { in.LoadBalancerName = name })
		if got := d.Ports[0].Pool.Members[0].SubnetID; got != "member subnet" {
			t.Errorf("load balancer %q: %q", name, got)
		}
	}
}

func TestMembers_NodeSelector(t *testing.T) {
	t.Parallel()
	labeled := func(name, address string, labels map[string]string) *v1.Node {
		n := node(name, address)
		n.Labels = labels
		return n
	}
	nodes := withNodes(
		labeled("n1", "10.0.0.1", map[string]string{"edge": "yes", "disk": "a=b"}),
		labeled("n2", "10.0.0.2", map[string]string{"edge": "yes"}),
		labeled("n3", "10.0.0.3", nil),
	)
	for text, want := range map[string][]string{
		"": {"n1", "n2", "n3"}, "edge=yes": {"n1", "n2"}, "edge": {"n1", "n2"}, "disk=a=b": {"n1"}, "edge=yes,disk": {"n1"},
	} {
		d, notices := build(t, nodes, withSettings(func(s *settings.Settings) {
			s.NodeSelector = settings.ParseNodeSelector(text)
		}))
		wantTold(t, notices)
		if got := namesOf(d); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	d, notices := build(t, nodes, withSettings(func(s *settings.Settings) {
		s.NodeSelector = settings.ParseNodeSelector("edge=no")
	}))
	wantTold(t, notices, "LoadBalancerWithoutMembers!")
	if got := namesOf(d); len(got) != 0 {
		t.Errorf("members %q", got)
	}
}

func namesOf(d State) (names []string) {
	for _, m := range d.Ports[0].Pool.Members {
		names = append(names, m.Name)
	}
	return names
}

func TestMembers_DrainingNodes(t *testing.T) {
	t.Parallel()
	drain := func(in *Input) { in.Nodes[0].Draining = true }
	d, notices := build(t, drain)
	wantTold(t, notices)
	if got := d.Ports[0].Pool.Members; len(got) != 2 || got[0].Weight != 0 || got[1].Weight != 1 {
		t.Errorf("members %+v", got)
	}
	if len(d.Backends) != 2 {
		t.Errorf("a node that still has connections is no backend: %+v", d.Backends)
	}
	d, notices = build(t, drain, withFeatures(ovn()))
	wantTold(t, notices)
	if !slices.Equal(namesOf(d), []string{"n2"}) || len(d.Backends) != 2 {
		t.Errorf("without weights: %q, backends %+v", namesOf(d), d.Backends)
	}
	_, notices = build(t, drain, func(in *Input) { in.Nodes[1].Draining = true })
	wantTold(t, notices, "LoadBalancerWithoutMembers!")
}

func TestMembers_None_Warns(t *testing.T) {
	t.Parallel()
	d, notices := build(t, withNodes(node("n1", "fd00::1"), node("n2")))
	wantTold(t, notices, "LoadBalancerWithoutMembers!")
	if len(namesOf(d)) != 0 {
		t.Errorf("%q", namesOf(d))
	}
	// A load balancer before the first node is no reason for a warning.
	_, notices = build(t, withNodes())
	wantTold(t, notices)
}

func TestMembers_OneAddress_OneMember(t *testing.T) {
	t.Parallel()
	d, notices := build(t,
		withNodes(node("n2", "10.0.0.1"), node("n1", "10.0.0.1"), node("n3", "10.0.0.3")))
	wantTold(t, notices, "LoadBalancerNodesShareAddress!")
	if got := namesOf(d); !slices.Equal(got, []string{"n1", "n3"}) {
		t.Errorf("members %q", got)
	}
	// Two spellings of one address are equal.
	d, notices = build(t, withFamilies(v1.IPv6Protocol), withSettings(func(s *settings.Settings) {
		s.Internal = true
	}),
		withNodes(node("n1", "fd00::1"), node("n2", "FD00:0::1")))
	wantTold(t, notices, "LoadBalancerNodesShareAddress!")
	if got := namesOf(d); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("members %q", got)
	}
}

// A server was replaced, and its successor got the address before the old node was deleted.
func TestMembers_OneAddress_TheNodeThatStaysIsTheMember(t *testing.T) {
	t.Parallel()
	d, notices := build(t, withNodes(node("n1", "10.0.0.1"), node("n2", "10.0.0.1")),
		func(in *Input) { in.Nodes[0].Draining = true })
	wantTold(t, notices)
	if got := d.Ports[0].Pool.Members; len(got) != 1 || got[0].Name != "n2" || got[0].Weight != 1 {
		t.Errorf("members %+v", got)
	}
}

// OCCM's security groups fail because of a node without provider ID.
func TestNode_WithoutProviderID_IsAMember(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"": "", "other:///x": "", "openstack:///" + serviceUID: serviceUID,
		"openstack://RegionOne/" + serviceUID: serviceUID,
	} {
		d, notices := build(t, func(in *Input) {
			in.Nodes[0].Spec.ProviderID = id
			in.Settings.ManageSecurityGroups = true
		})
		wantTold(t, notices)
		if len(namesOf(d)) != 2 || d.Backends[0].ServerID != want {
			t.Errorf("%q: members %q, backend %+v", id, namesOf(d), d.Backends[0])
		}
	}
}

// These are the nodes that upstream's service controller chooses, plus those that it leaves out
// because they are being deleted. It does not know Karpenter's taints and that of a shutdown.
func TestCandidates_EachNode_IsChosenAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	tainted := func(key string) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "other"}, {Key: key}} }
	}
	excluded := func(value string) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Labels = map[string]string{v1.LabelNodeExcludeBalancers: value}
		}
	}
	for name, test := range map[string]struct {
		change              func(*v1.Node)
		candidate, draining bool
	}{
		"a node": {func(*v1.Node) {}, true, false},
		"not ready": {func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{
				Type:   v1.NodeReady,
				Status: v1.ConditionFalse,
			}}
		}, true, false},
		"unschedulable":           {func(n *v1.Node) { n.Spec.Unschedulable = true }, true, false},
		"another taint":           {tainted("node.kubernetes.io/unreachable"), true, false},
		"about to be scaled down": {tainted("ToBeDeletedByClusterAutoscaler"), true, true},
		"Karpenter removes it":    {tainted("karpenter.sh/disrupted"), true, true},
		"another tool removes it": {tainted("example.com/leaving"), true, true},
		"shut down":               {tainted("node.cloudprovider.kubernetes.io/shutdown"), true, true},
		"being deleted":           {func(n *v1.Node) { n.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} }, true, true},
		"excluded":                {excluded("true"), false, false},
		"excluded, no value":      {excluded(""), false, false},
		"excluded, no bool":       {excluded("no"), false, false},
		"not excluded":            {excluded("false"), true, false},
		"excluded and tainted":    {func(n *v1.Node) { excluded("true")(n); tainted("ToBeDeletedByClusterAutoscaler")(n) }, false, false},
	} {
		n := node("n1", "10.0.0.1")
		test.change(n)
		before := n.DeepCopy()
		got := Candidates([]*v1.Node{n}, nil, []string{"example.com/leaving"}, nil)
		if (len(got) == 1) != test.candidate || test.candidate && got[0].Draining != test.draining {
			t.Errorf("%s: %+v", name, got)
		}
		if !reflect.DeepEqual(n, before) {
			t.Errorf("%s: the node was changed", name)
		}
	}
}

func nodeOf(server, name string, age time.Duration) *v1.Node {
	n := node(name, "10.0.0."+name[1:])
	n.Spec.ProviderID = "openstack:///" + server
	n.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).Add(-age))
	return n
}

// A node writes its provider ID itself, so a younger one may claim the server of another to get its
// traffic, or to have its security group opened.
func TestBuild_TwoNodesHaveOneProviderID_OnlyTheOlderIsAMember(t *testing.T) {
	t.Parallel()
	const server = "11111111-1111-4111-8111-111111111111"
	leaving := nodeOf(server, "n3", time.Hour)
	leaving.DeletionTimestamp = &leaving.CreationTimestamp
	for name, test := range map[string]struct {
		nodes []*v1.Node
		want  []string
	}{
		"a younger node claims the server": {
			[]*v1.Node{nodeOf(server, "n1", 0), nodeOf(server, "n2", time.Minute)}, []string{"n2"},
		},
		"the older one is excluded from load balancers": {
			[]*v1.Node{
				nodeOf(server, "n1", 0), excludedNode(nodeOf(server, "n2", time.Minute)),
			}, nil,
		},
		"the older one is replaced": {
			[]*v1.Node{nodeOf(server, "n1", 0), leaving}, []string{"n1"},
		},
		"of one age": {
			[]*v1.Node{nodeOf(server, "n2", 0), nodeOf(server, "n1", 0)}, []string{"n1"},
		},
		"no provider ID yet": {
			[]*v1.Node{node("n1", "10.0.0.1"), node("n2", "10.0.0.2")}, []string{"n1", "n2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given()
			in.Nodes = Candidates(test.nodes, nil, nil, nil)
			want, notices, err := Build(in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range want.Backends {
				if !b.Draining {
					got = append(got, b.Node)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the members are %q, want %q (%v)", got, test.want, notices)
			}
			tells := slices.ContainsFunc(notices,
				func(n events.Notice) bool { return n.Reason == events.NodeIDTaken })
			if tells != (len(test.nodes) > len(test.want) && name != "the older one is replaced") {
				t.Errorf("the notices are %v", notices)
			}
		})
	}
}

func excludedNode(n *v1.Node) *v1.Node {
	n.Labels = map[string]string{v1.LabelNodeExcludeBalancers: ""}
	return n
}

// Octavia's amphorae would send the traffic to themselves, or to their metadata service.
func TestBuild_NodeReportsAnUnreachableAddress_ItIsNoMember(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "fe80::a9fe:a9fe",
		"::ffff:169.254.169.254", "::", "ff02::1", "0.0.0.1", "255.255.255.255", "168.63.129.16",
		"100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42",
		"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
	} {
		if got, ok := memberAddress(node("n1", address), "", netip.Prefix{}); ok {
			t.Errorf("%s is used as %s", address, got)
		}
	}
	both := node("n1", "169.254.169.254")
	both.Status.Addresses = append(both.Status.Addresses,
		v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.0.0.1"})
	if got, _ := memberAddress(both, "", netip.Prefix{}); got != "10.0.0.1" {
		t.Errorf("the member's address is %q", got)
	}
}

// addresses are those of the servers of nodes, in pairs.
func addresses(pairs ...string) map[string][]v1.NodeAddress {
	all := map[string][]v1.NodeAddress{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = append(all[pairs[i]],
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: pairs[i+1]})
	}
	return all
}

func TestVerified_ServerOfANodeIsUnknown_ItsMemberStaysAndNoneIsAdded(t *testing.T) {
	nodes := []*v1.Node{node("n1", "10.0.0.1"), node("n2", "10.0.0.2")}
	pool := func(port int, names ...string) []octavia.Pool {
		p := octavia.Pool{}
		for _, name := range names {
			p.Members = append(p.Members,
				octavia.Member{Name: name, Address: "10.0.0.2", Port: port})
		}
		return []octavia.Pool{p}
	}
	deleted := pool(30080, "n2")
	deleted[0].Members[0].Status = octavia.Deleted
	for name, test := range map[string]struct {
		pools  []octavia.Pool
		serial bool
		stays  bool
	}{
		"no pool":        {},
		"it is a member": {pools: pool(30080, "n2"), stays: true},
		"it is a member, and the provider is serial": {
			pools: pool(30080, "member_n2_10.0.0.2_30080"), serial: true, stays: true,
		},
		"it is a member with the other kind of name": {
			pools: pool(30080, "member_n2_10.0.0.2_30080"), stays: true,
		},
		"it is a member at another node port":          {pools: pool(31000, "n2"), stays: true},
		"another node is a member at its address":      {pools: pool(30080, "n3")},
		"its member was deleted, as Octavia shows yet": {pools: deleted},
	} {
		for unknown, candidates := range map[string][]Node{
			"server": Candidates(nodes, nil, nil, addresses("n1", "10.0.0.1")),
			"region": Candidates(nodes[:1], nodes[1:], nil, nil),
		} {
			in := given()
			in.Features.Serial = test.serial
			in.Nodes = candidates
			want, _, err := Build(in)
			if err != nil {
				t.Fatal(err)
			}
			got, without := want.Verified(test.pools)
			names, left := 1, []string{"n2"}
			if test.stays {
				names, left = 2, nil
			}
			if len(namesOf(got)) != names || !slices.Equal(without, left) {
				t.Errorf("%s, and the %s is unknown: the members are %q without %q, want %d, "+
					"without %q", name, unknown, namesOf(got), without, names, left)
			}
			if len(namesOf(want)) != 2 {
				t.Errorf("%s: the desired state was changed to %q", name, namesOf(want))
			}
		}
	}
	// Two regions have the same address.
	in := given()
	in.Nodes = Candidates(nil, []*v1.Node{node("a1", "10.0.0.2"), nodes[1]}, nil, nil)
	want, notices, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, without := want.Verified(pool(30080, "n2")); len(notices) > 0 ||
		!slices.Equal(namesOf(got), []string{"n2"}) || !slices.Equal(without, []string{"a1"}) {
		t.Errorf("the members are %q without %q, want n2 without a1; the notices are %v",
			namesOf(got), without, notices)
	}
	// A node whose server has the address precedes one that only reports it.
	in.Nodes = Candidates([]*v1.Node{node("a1", "10.0.0.2"), nodes[1]}, nil, nil,
		addresses("n2", "10.0.0.2"))
	if want, _, err = Build(in); err != nil {
		t.Fatal(err)
	}
	if got, without := want.Verified(nil); !slices.Equal(namesOf(got), []string{"n2"}) ||
		len(without) > 0 {
		t.Errorf("the members are %q without %q, want n2", namesOf(got), without)
	}
}

// A node writes its addresses itself, so it may report one of another server.
func TestCandidates_NodeReportsAnAddressThatItsServerLacks_IsWithoutIt(t *testing.T) {
	t.Parallel()
	const server = "11111111-1111-4111-8111-111111111111"
	node := nodeOf(server, "n1", 0)
	node.Status.Addresses = append(node.Status.Addresses,
		v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.0.0.9"},
		v1.NodeAddress{Type: v1.NodeHostName, Address: "n1"})
	before := node.DeepCopy()
	in := given()
	in.Nodes = Candidates([]*v1.Node{node, nodeOf("", "n2", 0)}, nil, nil,
		addresses("n1", "10.0.0.1", "n2", "10.0.0.2"))
	want, notices, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range want.Backends {
		got = append(got, b.Address)
	}
	if !slices.Equal(got, []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("the members are %q", got)
	}
	const text = "node n1 reports 10.0.0.9, which its server does not have; no member gets such " +
		"an address"
	if !slices.ContainsFunc(notices, func(n events.Notice) bool {
		return n.Reason == events.NodeAddressForeign && n.Message == text
	}) {
		t.Errorf("the notices are %v, want %q", notices, text)
	}
	if !reflect.DeepEqual(node, before) {
		t.Error("the node was changed")
	}
}

// Both may be a tenant's to choose. A comparison of each with each would take hours.
func TestCandidates_NodeAndServerHaveAddressesWithoutAnEnd_AreComparedOnce(t *testing.T) {
	t.Parallel()
	const count = 1 << 18
	n := node("n1")
	var server []v1.NodeAddress
	for i := range count {
		rest := fmt.Sprintf(".%d.%d.%d", i>>16, i>>8&255, i&255)
		n.Status.Addresses = append(n.Status.Addresses,
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: "11" + rest})
		server = append(server, v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10" + rest})
	}
	got := Candidates([]*v1.Node{n}, nil, nil, map[string][]v1.NodeAddress{"n1": server})
	if len(got) != 1 || len(got[0].Foreign) != count {
		t.Errorf("%d nodes, want one without the addresses of another server", len(got))
	}
}
