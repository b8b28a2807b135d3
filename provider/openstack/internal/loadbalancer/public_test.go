package loadbalancer

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// annotationInternal is upstream's name of the annotation.
const annotationInternal = "service.beta.kubernetes.io/openstack-internal-load-balancer"

// externalNetwork is an external network with its subnets.
type externalNetwork struct{ id, v4, v6 string }

// place is a site with more networks, and one Service.
type place struct {
	*site
	service *v1.Service
	// node is the only node. Default: one in the nodes' network.
	node *v1.Node
	// second is another external network. shared is one that is shared with the project, which
	// therefore sees its subnets.
	second, shared externalNetwork
}

func (p *place) with(pairs ...string) {
	annotations(pairs...)(p.service)
	p.update(p.service)
}

func (p *place) internal() {
	p.service.Annotations[annotationInternal] = "true"
	p.update(p.service)
}

func (p *place) families(families ...v1.IPFamily) {
	p.service.Spec.IPFamilies = families
	p.update(p.service)
}

func (p *place) request(address string) {
	p.service.Spec.LoadBalancerIP = address
	p.update(p.service)
}

// addOwnExternal adds an external network that belongs to the project and is not shared.
func (p *place) addOwnExternal() externalNetwork {
	return p.addExternal(openstacktest.Network{Name: "own", ProjectID: p.Credentials().ProjectID},
		ownRange, ownRangeV6)
}

// addExternal adds an external network.
func (p *place) addExternal(network openstacktest.Network, v4, v6 string) externalNetwork {
	network.External = true
	id := p.AddNetwork(network)
	return externalNetwork{
		id, p.AddSubnet(openstacktest.Subnet{NetworkID: id, CIDR: v4}),
		p.AddSubnet(openstacktest.Subnet{NetworkID: id, CIDR: v6}),
	}
}

// addPublicNode adds a node whose server is in the shared external network.
func (p *place) addPublicNode(name string) *v1.Node {
	const address = "192.0.2.10"
	server := p.AddServer(openstacktest.Server{Name: name})
	p.AddPort(openstacktest.Port{
		NetworkID: p.shared.id, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: p.shared.v4, Address: address}},
	})
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.NodeSpec{ProviderID: "openstack:///" + server},
		Status: v1.NodeStatus{Addresses: []v1.NodeAddress{
			{Type: v1.NodeInternalIP, Address: address},
		}},
	}
}

// addTenantNetwork adds a network with a router to the external network; "" means no router.
func (p *place) addTenantNetwork(network openstacktest.Network, cidr, external string) string {
	id := p.AddNetwork(network)
	subnet := p.AddSubnet(openstacktest.Subnet{NetworkID: id, CIDR: cidr})
	p.AddRouter(openstacktest.Router{
		Name: network.Name, Subnets: []string{subnet}, ExternalNetworkID: external,
	})
	return id
}

// A publishedRow is a row of the table in docs/explanation/openstack-load-balancers.md.
type publishedRow struct {
	vip, published string
	// floating is the number of floating IPs.
	floating int
	cases    map[string]publishedCase
}

type publishedCase struct {
	prepare func(*place)
	// published are the ranges of the published addresses.
	published []string
}

// A refusedRow is a row about Services that are not served.
type refusedRow struct {
	// reason is that of the Warning.
	vip, reason string
	cases       map[string]refusedCase
}

type refusedCase struct {
	prepare func(*place)
	// warning is a part of the message.
	warning string
}

// The ranges of newPlace.
const (
	publicRange                = "203.0.113.0/24"
	tenantRange, tenantRangeV6 = "10.0.0.0/8", "fd00::/64"
	secondRange, secondRangeV6 = "198.51.100.0/24", "2001:db8:1::/64"
	sharedRange, sharedRangeV6 = "192.0.2.0/24", "2001:db8:2::/64"
	ownRange, ownRangeV6       = "198.18.0.0/24", "2001:db8:3::/64"
	othersRange, othersRangeV6 = "10.1.0.0/16", "fd00:1::/64"
	frontRange                 = "198.19.0.0/24"
)

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{site: newSite(t, openstacktest.WithUserChosenAddresses())}
	p.second = p.addExternal(openstacktest.Network{Name: "second"}, secondRange,
		secondRangeV6)
	p.shared = p.addExternal(openstacktest.Network{Name: "shared", Shared: true}, sharedRange,
		sharedRangeV6)
	p.service = p.addService("web", 80)
	return p
}

// vipPort adds an unused port in a subnet.
func (p *place) vipPort(network, subnet string) string {
	return p.AddPort(openstacktest.Port{
		NetworkID: network, FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet}},
	})
}

// othersNetwork adds a shared network of another project.
func (p *place) othersNetwork() string {
	return p.addTenantNetwork(openstacktest.Network{
		Name: "shared", Shared: true, ProjectID: "another",
	}, othersRange, p.external)
}

// addOthersV6 adds an IPv6 subnet to a new shared network of another project.
func (p *place) addOthersV6() (network, subnet string) {
	network = p.othersNetwork()
	return network, p.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: othersRangeV6})
}

// addVIPs adds a network of the project whose router leads to the external network.
func (p *place) addVIPs(external string) string {
	return p.addTenantNetwork(openstacktest.Network{Name: "vips"}, othersRange, external)
}

// addFront adds a subnet with a name and a tag to an external network.
func (p *place) addFront(network string) string {
	return p.AddSubnet(openstacktest.Subnet{
		Name: "front", Tags: []string{"front"}, NetworkID: network, CIDR: frontRange,
	})
}

// targetPods makes pods the members.
func (p *place) targetPods() {
	p.defaults.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	p.with("member-target", "pod")
}

// addV6 adds an IPv6 subnet to the nodes' network.
func (p *place) addV6() string {
	return p.AddSubnet(openstacktest.Subnet{NetworkID: p.network, CIDR: tenantRangeV6})
}

func publishedRows() []publishedRow {
	return []publishedRow{
		{
			"IPv4 in the nodes' network, or in another network of the project or shared with it",
			"a floating IP of the external network to which its router leads", 1,
			map[string]publishedCase{
				"the nodes' network": {func(*place) {}, []string{publicRange}},
				"another network of the project": {func(p *place) {
					p.with("network-id", p.addVIPs(p.external))
				}, []string{publicRange}},
				"a shared network of another project": {func(p *place) {
					p.with("network-id", p.othersNetwork())
				}, []string{publicRange}},
				"a network whose router leads to the second external network": {func(p *place) {
					p.with("network-id", p.addVIPs(p.second.id))
				}, []string{secondRange}},
				"a port": {func(p *place) {
					p.with("port-id", p.vipPort(p.network, p.subnet))
				}, []string{publicRange}},
				"pods as members": {(*place).targetPods, []string{publicRange}},
			},
		},
		{
			"the same, and `floating-network-id` names an external network to which its router leads",
			"a floating IP of this network", 1,
			map[string]publishedCase{
				"the nodes' network": {func(p *place) {
					p.with("floating-network-id", p.external)
				}, []string{publicRange}},
				"a shared network of another project": {func(p *place) {
					p.with("network-id", p.othersNetwork(), "floating-network-id", p.external)
				}, []string{publicRange}},
				"a network whose router leads to the second external network": {func(p *place) {
					p.with("network-id", p.addVIPs(p.second.id),
						"floating-network-id", p.second.id)
				}, []string{secondRange}},
				"a port in such a network": {func(p *place) {
					port := p.AddPort(openstacktest.Port{NetworkID: p.addVIPs(p.second.id)})
					p.with("port-id", port, "floating-network-id", p.second.id)
				}, []string{secondRange}},
			},
		},
		{
			"the same, and `floating-subnet-id`, `floating-subnet` or `floating-subnet-tags` " +
				"names a subnet of such a network",
			"a floating IP of this subnet", 1,
			map[string]publishedCase{
				"by its ID": {func(p *place) {
					p.with("network-id", p.addVIPs(p.shared.id),
						"floating-subnet-id", p.addFront(p.shared.id))
				}, []string{frontRange}},
				"by its ID, and the project does not see it": {func(p *place) {
					p.with("floating-subnet-id", p.addFront(p.external))
				}, []string{frontRange}},
				"by its ID and its network": {func(p *place) {
					p.with("floating-subnet-id", p.addFront(p.external),
						"floating-network-id", p.external)
				}, []string{frontRange}},
				"by its name": {func(p *place) {
					p.addFront(p.shared.id)
					p.with("network-id", p.addVIPs(p.shared.id), "floating-subnet", "fr*")
				}, []string{frontRange}},
				"by its tag": {func(p *place) {
					p.addFront(p.shared.id)
					p.with("network-id", p.addVIPs(p.shared.id), "floating-subnet-tags", "front")
				}, []string{frontRange}},
			},
		},
		{
			"the same, with `spec.loadBalancerIP`", "the floating IP with this address", 1,
			map[string]publishedCase{
				"a floating subnet": {func(p *place) {
					p.request("203.0.113.77")
					p.with("floating-subnet-id", p.floating)
				}, []string{"203.0.113.77/32"}},
				"the second external network": {func(p *place) {
					p.request("198.51.100.77")
					p.with("network-id", p.addVIPs(p.second.id),
						"floating-network-id", p.second.id)
				}, []string{"198.51.100.77/32"}},
				"the nodes' network": {func(p *place) {
					p.request("203.0.113.77")
				}, []string{"203.0.113.77/32"}},
				"a network whose router leads to the second external network": {func(p *place) {
					p.request("198.51.100.77")
					p.with("network-id", p.addVIPs(p.second.id))
				}, []string{"198.51.100.77/32"}},
			},
		},
		{
			"IPv4 in such a network, and the Service is internal", "the VIP", 0,
			map[string]publishedCase{
				"pods as members": {func(p *place) {
					p.internal()
					p.targetPods()
				}, []string{tenantRange}},
				"a floating network to which no router leads": {func(p *place) {
					p.internal()
					p.with("floating-network-id", p.second.id)
				}, []string{tenantRange}},
				"a floating subnet": {func(p *place) {
					p.internal()
					p.with("floating-subnet-id", p.floating)
				}, []string{tenantRange}},
				"the nodes' network": {func(p *place) { p.internal() }, []string{tenantRange}},
				"a shared network of another project": {func(p *place) {
					p.internal()
					p.with("network-id", p.othersNetwork())
				}, []string{othersRange}},
				"a port": {func(p *place) {
					p.internal()
					p.with("port-id", p.vipPort(p.network, p.subnet))
				}, []string{tenantRange}},
			},
		},
		{
			"the same, with `spec.loadBalancerIP`", "the VIP, which gets this address", 0,
			map[string]publishedCase{
				"the nodes' network, internal": {func(p *place) {
					p.internal()
					p.request("10.0.7.77")
				}, []string{"10.0.7.77/32"}},
			},
		},
		{
			"IPv4 in an external network, shared or not, named by `network-id`, `subnet-id` or " +
				"`port-id`, or because the nodes are there", "the VIP", 0,
			map[string]publishedCase{
				"its network": {func(p *place) {
					p.with("network-id", p.external)
				}, []string{publicRange}},
				"its network, internal": {func(p *place) {
					p.internal()
					p.with("network-id", p.external)
				}, []string{publicRange}},
				"its network, shared": {func(p *place) {
					p.with("network-id", p.shared.id)
				}, []string{sharedRange}},
				"its network, shared and internal": {func(p *place) {
					p.internal()
					p.with("network-id", p.shared.id)
				}, []string{sharedRange}},
				"its subnet, shared": {func(p *place) {
					p.with("subnet-id", p.shared.v4)
				}, []string{sharedRange}},
				"its subnet, not shared": {func(p *place) {
					p.with("subnet-id", p.addOwnExternal().v4)
				}, []string{ownRange}},
				"a port": {func(p *place) {
					p.with("port-id", p.vipPort(p.external, p.floating))
				}, []string{publicRange}},
				"a port in the second external network": {func(p *place) {
					p.with("port-id", p.vipPort(p.second.id, p.second.v4))
				}, []string{secondRange}},
				"the nodes": {func(p *place) {
					p.node = p.addPublicNode("public")
				}, []string{sharedRange}},
				"its network, pods as members": {func(p *place) {
					p.targetPods()
					p.with("network-id", p.external)
				}, []string{publicRange}},
			},
		},
		{
			"the same, with `spec.loadBalancerIP`", "the VIP, which gets this address", 0,
			map[string]publishedCase{
				"its network": {func(p *place) {
					p.request("203.0.113.77")
					p.with("network-id", p.external)
				}, []string{"203.0.113.77/32"}},
			},
		},
		{
			"the same, and `floating-network-id`, `floating-subnet-id`, `floating-subnet` or " +
				"`floating-subnet-tags` names this or another external network",
			"the VIP", 0,
			map[string]publishedCase{
				"its subnet": {func(p *place) {
					p.with("network-id", p.external, "floating-subnet-id", p.floating)
				}, []string{publicRange}},
				"a subnet of another": {func(p *place) {
					p.with("network-id", p.external, "floating-subnet-id", p.second.v4)
				}, []string{publicRange}},
				"a subnet by its name": {func(p *place) {
					p.addFront(p.shared.id)
					p.with("network-id", p.shared.id, "floating-subnet", "front")
				}, []string{sharedRange}},
				"a subnet by its tag": {func(p *place) {
					p.addFront(p.shared.id)
					p.with("network-id", p.shared.id, "floating-subnet-tags", "front")
				}, []string{sharedRange}},
				"another": {func(p *place) {
					p.with("network-id", p.external, "floating-network-id", p.second.id)
				}, []string{publicRange}},
				"the same, the second": {func(p *place) {
					p.with("network-id", p.second.id, "floating-network-id", p.second.id)
				}, []string{secondRange}},
			},
		},
		{
			"IPv6 in any network", "the VIP", 0,
			map[string]publishedCase{
				"a subnet of an external network": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("subnet-id", p.shared.v6)
				}, []string{sharedRangeV6}},
				"an external network": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("network-id", p.shared.id)
				}, []string{sharedRangeV6}},
				"a subnet of an external network, not shared": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("subnet-id", p.addOwnExternal().v6)
				}, []string{ownRangeV6}},
				"an external network, internal": {func(p *place) {
					p.internal()
					p.families(v1.IPv6Protocol)
					p.with("network-id", p.shared.id)
				}, []string{sharedRangeV6}},
				"a port in an external network": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("port-id", p.vipPort(p.second.id, p.second.v6))
				}, []string{secondRangeV6}},
				"the nodes' network": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("subnet-id", p.addV6())
				}, []string{tenantRangeV6}},
				"the nodes' network, internal": {func(p *place) {
					p.internal()
					p.families(v1.IPv6Protocol)
					p.with("subnet-id", p.addV6())
				}, []string{tenantRangeV6}},
				"a port in the nodes' network": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("port-id", p.vipPort(p.network, p.addV6()))
				}, []string{tenantRangeV6}},
				"a shared network of another project": {func(p *place) {
					network, _ := p.addOthersV6()
					p.families(v1.IPv6Protocol)
					p.with("network-id", network)
				}, []string{othersRangeV6}},
				"a subnet of a shared network of another project": {func(p *place) {
					_, subnet := p.addOthersV6()
					p.families(v1.IPv6Protocol)
					p.with("subnet-id", subnet)
				}, []string{othersRangeV6}},
				"the nodes' network, and a floating network": {func(p *place) {
					p.families(v1.IPv6Protocol)
					p.with("subnet-id", p.addV6(), "floating-network-id", p.external)
				}, []string{tenantRangeV6}},
			},
		},
		{
			"both families in a private network, IPv4 first", "a floating IP, and the IPv6 VIP", 1,
			map[string]publishedCase{
				"a shared network of another project": {func(p *place) {
					network, _ := p.addOthersV6()
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("network-id", network)
				}, []string{publicRange, othersRangeV6}},
				"the nodes' network": {func(p *place) {
					p.addV6()
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
				}, []string{publicRange, tenantRangeV6}},
			},
		},
		{
			"the same, and `port-id` names a port there", "a floating IP; IPv6 is not served", 1,
			map[string]publishedCase{
				"the nodes' network": {func(p *place) {
					p.addV6()
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("port-id", p.vipPort(p.network, p.subnet))
				}, []string{publicRange}},
			},
		},
		{
			"both families in a private network, and the Service is internal", "both VIPs", 0,
			map[string]publishedCase{
				"a shared network of another project": {func(p *place) {
					network, _ := p.addOthersV6()
					p.internal()
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("network-id", network)
				}, []string{othersRange, othersRangeV6}},
				"the nodes' network": {func(p *place) {
					p.internal()
					p.addV6()
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
				}, []string{tenantRange, tenantRangeV6}},
			},
		},
		{
			"both families in a private network, IPv6 first",
			"both VIPs; the address of the second family is private", 0,
			map[string]publishedCase{
				"a shared network of another project": {func(p *place) {
					network, _ := p.addOthersV6()
					p.families(v1.IPv6Protocol, v1.IPv4Protocol)
					p.with("network-id", network)
				}, []string{othersRangeV6, othersRange}},
				"the nodes' network": {func(p *place) {
					p.addV6()
					p.families(v1.IPv6Protocol, v1.IPv4Protocol)
					p.with("network-id", p.network)
				}, []string{tenantRangeV6, tenantRange}},
				"the nodes' network, and a floating network": {func(p *place) {
					p.addV6()
					p.families(v1.IPv6Protocol, v1.IPv4Protocol)
					p.with("network-id", p.network, "floating-network-id", p.external)
				}, []string{tenantRangeV6, tenantRange}},
			},
		},
		{
			"both families in an external network", "both VIPs", 0,
			map[string]publishedCase{
				"its network, IPv6 first": {func(p *place) {
					p.families(v1.IPv6Protocol, v1.IPv4Protocol)
					p.with("network-id", p.shared.id)
				}, []string{sharedRangeV6, sharedRange}},
				"its subnet": {func(p *place) {
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("subnet-id", p.shared.v4)
				}, []string{sharedRange, sharedRangeV6}},
				"its network": {func(p *place) {
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("network-id", p.shared.id)
				}, []string{sharedRange, sharedRangeV6}},
				"its network, internal": {func(p *place) {
					p.internal()
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("network-id", p.shared.id)
				}, []string{sharedRange, sharedRangeV6}},
			},
		},
		{
			"the same, and `port-id` names a port there",
			"the VIP; the second family is not served", 0,
			map[string]publishedCase{
				"IPv4 first": {func(p *place) {
					p.families(v1.IPv4Protocol, v1.IPv6Protocol)
					p.with("port-id", p.vipPort(p.shared.id, p.shared.v4))
				}, []string{sharedRange}},
				"IPv6 first": {func(p *place) {
					p.families(v1.IPv6Protocol, v1.IPv4Protocol)
					p.with("port-id", p.vipPort(p.shared.id, p.shared.v6))
				}, []string{sharedRangeV6}},
			},
		},
	}
}

func refusedRows() []refusedRow {
	annotation := func(name string) string { return "(annotation " + settings.Prefix + name + ")" }
	return []refusedRow{
		{
			"IPv4 in a private network, and its router does not lead to the network of " +
				"`floating-network-id` or `floating-subnet-id`",
			"LoadBalancerSettingRefused",
			map[string]refusedCase{
				"the nodes' network": {func(p *place) {
					p.with("floating-network-id", p.second.id)
				}, annotation("floating-network-id")},
				"another network of the project": {func(p *place) {
					p.with("network-id", p.addVIPs(p.second.id),
						"floating-network-id", p.external)
				}, annotation("floating-network-id")},
				"a shared network of another project": {func(p *place) {
					p.with("network-id", p.othersNetwork(), "floating-network-id", p.shared.id)
				}, annotation("floating-network-id")},
				"a port": {func(p *place) {
					p.with("port-id", p.vipPort(p.network, p.subnet),
						"floating-network-id", p.second.id)
				}, annotation("floating-network-id")},
				"a subnet": {func(p *place) {
					p.with("floating-subnet-id", p.shared.v4)
				}, annotation("floating-subnet-id")},
				"a subnet and its network": {func(p *place) {
					p.with("floating-subnet-id", p.shared.v4, "floating-network-id", p.shared.id)
				}, annotation("floating-network-id")},
			},
		},
		{
			"IPv4 in a private network, and no IPv4 subnet fits `floating-network-id`, " +
				"`floating-subnet-id`, `floating-subnet` and `floating-subnet-tags`",
			"UnsupportedConfiguration",
			map[string]refusedCase{
				"a subnet of another network": {func(p *place) {
					p.with("floating-subnet-id", p.shared.v4, "floating-network-id", p.external)
				}, "not in the configured floating network "},
				"no such name": {func(p *place) {
					p.with("floating-subnet", "none-*")
				}, `floating-subnet "none-*"`},
				"no such tag": {func(p *place) {
					p.addFront(p.shared.id)
					p.with("network-id", p.addVIPs(p.shared.id), "floating-subnet-tags", "none")
				}, `floating-subnet-tags "none"`},
				"the tag of another name": {func(p *place) {
					p.addFront(p.shared.id)
					p.with("network-id", p.addVIPs(p.shared.id), "floating-subnet", "back",
						"floating-subnet-tags", "front")
				}, `floating-subnet "back" and tags`},
				"an IPv6 subnet": {func(p *place) {
					p.with("network-id", p.addVIPs(p.shared.id),
						"floating-subnet-id", p.shared.v6)
				}, "is an IPv6 subnet"},
			},
		},
	}
}

func TestPublishedAddress_FloatingIPIsImpossible_ServiceIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range refusedRows() {
		for name, test := range row.cases {
			t.Run(row.vip+": "+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				test.prepare(p)
				p.node = p.addNode("a")
				p.wantRefused(row.reason, test.warning)
			})
		}
	}
}

// wantRefused reconciles the Service until a Warning is recorded, and deletes it.
func (p *place) wantRefused(reason, warning string) {
	p.t.Helper()
	c := p.begin("cluster-1", p.kube)
	var warnings []string
	for pass := 0; len(warnings) == 0 && pass < 200; pass++ {
		if _, err := c.EnsureLoadBalancer(p.t.Context(), "kubernetes", p.now(p.service),
			[]*v1.Node{p.node}); err == nil {
			p.t.Fatal("the Service is served")
		}
		if err := c.forgetList(p.service.UID); err != nil {
			p.t.Fatal(err)
		}
		warnings = p.said("Warning ")
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "Warning "+reason+": ") ||
		!strings.Contains(warnings[0], warning) {
		p.t.Errorf("the warnings are %q, want one %s with %q", warnings, reason, warning)
	}
	c.remove(p.service)
	if left := p.FloatingIPs(); len(left) > 0 {
		p.t.Errorf("after the deletion, %v remain", left)
	}
	if left := p.LoadBalancers(); len(left) > 0 {
		p.t.Errorf("after the deletion, %v remain", left)
	}
}

func TestPublishedAddress_EachPlaceOfTheVIP_IsAFloatingIPOrTheVIP(t *testing.T) {
	t.Parallel()
	for _, row := range publishedRows() {
		for name, test := range row.cases {
			t.Run(row.vip+": "+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				test.prepare(p)
				if p.node == nil {
					p.node = p.addNode("a")
				}
				p.wantPublished(test.published, row.floating)
			})
		}
	}
}

// wantPublished reconciles the Service twice, and deletes it. The addresses are in the ranges.
func (p *place) wantPublished(ranges []string, floating int) {
	p.t.Helper()
	c := p.begin("cluster-1", p.kube)
	ensure := func() *v1.LoadBalancerStatus {
		if c.WantsEndpoints(p.service) {
			return c.ensurePods(p.service, p.node, "10.244.1.1")
		}
		return c.ensure(p.service, p.node)
	}
	status := ensure()
	if len(status.Ingress) != len(ranges) {
		p.t.Fatalf("published is %+v, want addresses in %v", status.Ingress, ranges)
	}
	for i, cidr := range ranges {
		if got := status.Ingress[i].IP; !netip.MustParsePrefix(cidr).Contains(
			netip.MustParseAddr(got)) {
			p.t.Errorf("published is %s, want an address in %s", got, cidr)
		}
	}
	if n := p.counts(0)["floating_ip_create"]; n != floating {
		p.t.Errorf("floating IPs were requested %d times, want %d", n, floating)
	}
	mark := p.mark()
	ensure()
	if writes := p.writes(mark); len(writes) > 0 {
		p.t.Errorf("the next pass sends %v", writes)
	}
	c.remove(p.service)
	if left := p.FloatingIPs(); len(left) > 0 {
		p.t.Errorf("after the deletion, %v remain", left)
	}
}

func TestPage_PublishedAddresses_AreThoseOfTheTests(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/explanation/openstack-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("\n| VIP | published |\n|---|---|\n")
	for _, row := range publishedRows() {
		fmt.Fprintf(&table, "| %s | %s |\n", row.vip, row.published)
	}
	for _, row := range refusedRows() {
		fmt.Fprintf(&table, "| %s | nothing; the Warning `%s` says why |\n", row.vip,
			row.reason)
	}
	table.WriteString("\n")
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("the page lacks this table:\n%s", table.String())
	}
}

// A Service moves from a private network to the external one, and leaves its floating IP.
func TestRecreated_InTheExternalNetwork_TheFloatingIPGoes(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	c.ensure(service, node)
	service = s.now(service)
	annotations("network-id", s.external, "recreate", "true")(service)
	s.update(service)
	// The old load balancer keeps its floating IP until the new one shows its network, so Neutron
	// refuses once to attach it.
	if err := c.attend(now, 5*time.Minute, service, node); err != nil {
		t.Fatalf("the Service is not served after five minutes: %v", err)
	}
	status, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
		[]*v1.Node{node})
	if err != nil {
		t.Fatal(err)
	}
	lbs := s.LoadBalancers()
	if len(lbs) != 1 || len(status.Ingress) != 1 || status.Ingress[0].IP != lbs[0].VIPAddress ||
		lbs[0].VIPNetworkID != s.external {
		t.Errorf("published is %+v, the load balancers are %+v", status.Ingress, lbs)
	}
	if left := s.FloatingIPs(); len(left) > 0 {
		t.Errorf("%v remain", left)
	}
	if told := s.said("LoadBalancerFloatingIPSkipped"); len(told) != 1 {
		t.Errorf("the events that say why it has no floating IP are %q", told)
	}
}
