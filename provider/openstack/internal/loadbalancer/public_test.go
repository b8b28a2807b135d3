package loadbalancer

import (
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// The rows are those of the table in docs/explanation/openstack-load-balancers.md.
func TestPublishedAddress_EachPlaceOfTheVIP_IsAFloatingIPOrTheVIP(t *testing.T) {
	t.Parallel()
	const tenant, public, second = "10.0.0.0/8", "203.0.113.0/24", "198.51.100.0/24"
	const shared, sharedV6 = "192.0.2.0/24", "2001:db8:2::/64"
	for name, test := range map[string]struct {
		prepare func(*place)
		// published are the ranges of the published addresses.
		published []string
		// floating is the number of floating IPs.
		floating int
	}{
		"the nodes' network": {func(*place) {}, []string{public}, 1},
		"another network of the project": {func(p *place) {
			p.with("network-id", p.addTenantNetwork(openstacktest.Network{Name: "vips"},
				"10.1.0.0/16", p.external))
		}, []string{public}, 1},
		"a shared network of another project": {func(p *place) {
			p.with("network-id", p.addTenantNetwork(openstacktest.Network{
				Name: "shared", Shared: true, ProjectID: "another",
			}, "10.1.0.0/16", p.external))
		}, []string{public}, 1},
		"a network whose router leads to the second external network": {func(p *place) {
			p.with("network-id", p.addTenantNetwork(openstacktest.Network{Name: "vips"},
				"10.1.0.0/16", p.second.id))
		}, []string{second}, 1},
		"a private network, internal": {func(p *place) {
			p.internal()
		}, []string{tenant}, 0},
		"the external network": {func(p *place) {
			p.with("network-id", p.external)
		}, []string{public}, 0},
		"an external network that is shared": {func(p *place) {
			p.with("network-id", p.shared.id)
		}, []string{shared}, 0},
		"the external network, internal": {func(p *place) {
			p.internal()
			p.with("network-id", p.external)
		}, []string{public}, 0},
		"a subnet of an external network that is shared": {func(p *place) {
			p.with("subnet-id", p.shared.v4)
		}, []string{shared}, 0},
		"a port in the external network": {func(p *place) {
			p.with("port-id", p.AddPort(openstacktest.Port{
				NetworkID: p.external, FixedIPs: []openstacktest.FixedIP{{SubnetID: p.floating}},
			}))
		}, []string{public}, 0},
		"the external network, with a requested address": {func(p *place) {
			p.service.Spec.LoadBalancerIP = "203.0.113.77"
			p.with("network-id", p.external)
		}, []string{"203.0.113.77/32"}, 0},
		"one external network, and the floating network is the other": {func(p *place) {
			p.with("network-id", p.external, "floating-network-id", p.second.id)
		}, []string{public}, 0},
		"the second external network, and the floating network is the same": {func(p *place) {
			p.with("network-id", p.second.id, "floating-network-id", p.second.id)
		}, []string{second}, 0},
		"the nodes are in an external network": {func(p *place) {
			p.node = p.addPublicNode("public")
		}, []string{shared}, 0},
		"IPv6 in an external network": {func(p *place) {
			p.families(v1.IPv6Protocol)
			p.with("subnet-id", p.shared.v6)
		}, []string{sharedV6}, 0},
		"both families in the nodes' network": {func(p *place) {
			p.AddSubnet(openstacktest.Subnet{NetworkID: p.network, CIDR: "fd00::/64"})
			p.families(v1.IPv4Protocol, v1.IPv6Protocol)
		}, []string{public, "fd00::/64"}, 1},
		"IPv6 in the nodes' network": {func(p *place) {
			p.families(v1.IPv6Protocol)
			p.with("subnet-id", p.AddSubnet(
				openstacktest.Subnet{NetworkID: p.network, CIDR: "fd00::/64"}))
		}, []string{"fd00::/64"}, 0},
		"both families in an external network": {func(p *place) {
			p.families(v1.IPv4Protocol, v1.IPv6Protocol)
			p.with("subnet-id", p.shared.v4)
		}, []string{shared, sharedV6}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{site: newSite(t)}
			p.second = p.addExternal(openstacktest.Network{Name: "second"}, second,
				"2001:db8:1::/64")
			p.shared = p.addExternal(openstacktest.Network{Name: "shared", Shared: true}, shared,
				sharedV6)
			p.service = p.addService("web", 80)
			test.prepare(p)
			if p.node == nil {
				p.node = p.addNode("a")
			}
			c := p.begin("cluster-1", p.kube)
			status := c.ensure(p.service, p.node)
			if len(status.Ingress) != len(test.published) {
				t.Fatalf("published is %+v, want addresses in %v", status.Ingress, test.published)
			}
			for i, cidr := range test.published {
				if got := status.Ingress[i].IP; !netip.MustParsePrefix(cidr).Contains(
					netip.MustParseAddr(got)) {
					t.Errorf("published is %s, want an address in %s", got, cidr)
				}
			}
			if n := p.counts(0)["floating_ip_create"]; n != test.floating {
				t.Errorf("floating IPs were requested %d times, want %d", n, test.floating)
			}
			mark := p.mark()
			c.ensure(p.service, p.node)
			if writes := p.writes(mark); len(writes) > 0 {
				t.Errorf("the next pass sends %v", writes)
			}
			c.remove(p.service)
			if left := p.FloatingIPs(); len(left) > 0 {
				t.Errorf("after the deletion, %v remain", left)
			}
		})
	}
}

// A Service moves from a private network to the external one, and leaves its floating IP.
func TestRecreated_InTheExternalNetwork_TheFloatingIPGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	c.ensure(service, node)
	service = s.now(service)
	annotations("network-id", s.external, "recreate", "true")(service)
	s.update(service)
	var status *v1.LoadBalancerStatus
	for pass := 0; status == nil && pass < 200; pass++ {
		// The old load balancer keeps its floating IP until the new one shows its network, so
		// Neutron refuses once to attach it.
		status, _ = c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
			[]*v1.Node{node})
		if err := c.forgetList(service.UID); err != nil {
			t.Fatal(err)
		}
	}
	if status == nil {
		t.Fatal("the Service is not served after 200 passes")
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
