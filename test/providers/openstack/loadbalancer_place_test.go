package openstack_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

func TestLoadBalancer_HasAddressesOfItsServicesFamilies(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil, project.WithIPv6())
	node := s.servers[0]
	s.create("six", families(v1.IPv6Protocol))
	s.create("four-six", families(v1.IPv4Protocol, v1.IPv6Protocol))
	s.create("six-four", internal(), families(v1.IPv6Protocol, v1.IPv4Protocol))
	s.create("six-alone", internal(), families(v1.IPv6Protocol), func(service *v1.Service) {
		service.Spec.LoadBalancerSourceRanges = []string{"fd01::/64", "10.0.0.0/8"}
	})
	names := []string{"six", "four-six", "six-four", "six-alone"}
	s.serve(names...)
	s.quiet(names...)
	for name, want := range map[string]struct {
		subnet, other int
		member        string
		// cidrs is nil where there may be those of both families, or none.
		cidrs []string
	}{
		"six":       {6, 0, node.Addresses[6], []string{"::/0"}},
		"four-six":  {4, 6, node.Addresses[4], nil},
		"six-four":  {6, 4, node.Addresses[6], nil},
		"six-alone": {6, 0, node.Addresses[6], []string{"fd01::/64"}},
	} {
		v := s.view(name)
		first := project.Text(v.balancer, "vip_address")
		s.wantAttributes(name, v.balancer, project.Object{"vip_subnet_id": s.Subnets[want.subnet]})
		s.wantAttributes("a member of "+name, v.ports["80/TCP"].members["node-1"],
			project.Object{"address": want.member})
		listener := v.ports["80/TCP"].listener
		if got := texts(listener["allowed_cidrs"]); want.cidrs != nil &&
			!slices.Equal(got, want.cidrs) || want.cidrs == nil && len(got) == 1 {
			t.Errorf("the listener of %s lets %q in: %v", name, got, listener)
		}
		more, _ := v.balancer["additional_vips"].([]any)
		addresses := []string{first}
		if len(v.floatingIPs) == 1 {
			addresses[0] = project.Text(v.floatingIPs[0], "floating_ip_address")
		}
		for _, vip := range more {
			vip, _ := vip.(project.Object)
			if vip["subnet_id"] != s.Subnets[want.other] {
				t.Errorf("%s has the additional VIP %v, want one in %s", name, vip,
					s.Subnets[want.other])
			}
			addresses = append(addresses, project.Text(vip, "ip_address"))
		}
		if (len(more) == 1) != (want.other != 0) ||
			(len(v.floatingIPs) == 1) != (name == "four-six") {
			t.Errorf("%s has the additional VIPs %v and the floating IPs %v", name, more,
				v.floatingIPs)
		}
		s.wantStatus(name, addresses...)
	}
	s.quietAfterRestart()
	s.end()
}

// Where a load balancer is, and of what kind, is as the Service, its class or cloud.conf says when
// it is made. Later it is told that it cannot be changed, or the load balancer is made again.
func TestLoadBalancer_IsWhereItIsToBe(t *testing.T) {
	t.Parallel()
	var network, inner, outer string
	s := begin(t, 1, func(p *project.Project, _ *cloudconf.LoadBalancer) {
		network = p.AddNetwork("front")
		inner, outer = p.AddSubnet(network, "10.8.0.0/24"), p.AddSubnet(network, "10.9.0.0/24")
	})
	s.config.LoadBalancerClasses = map[string]cloudconf.LoadBalancerClass{
		"front": {NetworkID: network, SubnetID: outer, MemberSubnetID: s.Subnets[4]},
	}
	s.restart()
	port := project.ID(s.User().Create(project.Network, "/ports", "port", project.Object{
		"name": "address", "network_id": network,
		"fixed_ips": []project.Object{{"subnet_id": inner, "ip_address": "10.8.0.77"}},
	}))
	flavor, zone := s.AddBalancerFlavor("small"), s.AddBalancerZone("first")
	s.before = s.Inventory()
	services := map[string]struct {
		edit edit
		want project.Object
	}{
		"by-class":  {annotated("class", "front"), project.Object{"vip_network_id": network, "vip_subnet_id": outer}},
		"by-subnet": {annotated("class", "front", "subnet-id", inner), project.Object{"vip_subnet_id": inner}},
		"by-port":   {annotated("port-id", port, "member-subnet-id", s.Subnets[4]), project.Object{"vip_port_id": port, "vip_address": "10.8.0.77"}},
		"by-address": {all(annotated("network-id", network),
			func(service *v1.Service) {
				service.Spec.LoadBalancerIP = "10.9.0.99"
			}), project.Object{
			"vip_network_id": network, "vip_subnet_id": outer, "vip_address": "10.9.0.99",
		}},
		"by-kind": {
			annotated("flavor-id", flavor, "availability-zone", zone),
			project.Object{
				"flavor_id": flavor, "availability_zone": zone,
				"vip_subnet_id": s.Subnets[4],
			},
		},
	}
	var names []string
	for name, service := range services {
		s.create(name, internal(), service.edit)
		names = append(names, name)
	}
	s.serve(names...)
	s.quiet(names...)
	for name, service := range services {
		v := s.view(name)
		s.wantAttributes(name, v.balancer, service.want)
		s.wantMembers(name, v, s.servers...)
	}
	s.remove("by-class", "by-port", "by-address")
	// The user's port stays. Octavia has put a security group of its own in the place of those it
	// had, and has taken that off.
	s.wantAttributes("the user's port", s.User().Get(project.Network, "/ports/"+port, "port"),
		project.Object{"device_id": "", "security_groups": []string{}})

	// Not changed, but told.
	id := s.id("by-kind")
	s.change("by-kind",
		annotated("availability-zone", s.AddBalancerZone("second"), "subnet-id", inner))
	s.serve("by-kind")
	s.quiet("by-kind")
	s.told("availability zone", "subnet", "recreate")
	s.wantAttributes("by-kind", s.view("by-kind").balancer,
		project.Object{"id": id, "availability_zone": zone, "vip_subnet_id": s.Subnets[4]})

	// It is created again, with its address.
	address := s.view("by-subnet").balancer["vip_address"]
	id = s.id("by-subnet")
	s.change("by-subnet", annotated("flavor-id", flavor, "recreate", "true"))
	s.serve("by-subnet")
	s.quiet("by-subnet")
	s.wantAttributes("by-subnet", s.view("by-subnet").balancer,
		project.Object{"flavor_id": flavor, "vip_address": address})
	if s.id("by-subnet") == id || !s.gone(project.LoadBalancer, "/lbaas/loadbalancers/"+id) {
		t.Errorf("by-subnet was not made again: %s before, %s after", id, s.id("by-subnet"))
	}
	s.quietAfterRestart()
	s.end("security_groups")
}

// cloud.conf names a network for floating IPs, too.
func TestLoadBalancer_VIPInTheExternalNetwork_IsPublished(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	s.create("web", annotated("network-id", s.Public))
	s.serve("web")
	s.quiet("web")
	s.told("needs no floating IP")
	v := s.view("web")
	s.wantAttributes("web", v.balancer, project.Object{"vip_network_id": s.Public})
	s.wantMembers("web", v, s.servers...)
	if len(v.floatingIPs) > 0 {
		t.Errorf("web has the floating IPs %v", v.floatingIPs)
	}
	s.wantStatus("web", project.Text(v.balancer, "vip_address"))
	s.quietAfterRestart()
	s.end()
}
