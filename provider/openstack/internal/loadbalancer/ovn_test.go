package loadbalancer

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The driver of ovn reports a load balancer as ACTIVE before it has created the parts.
func TestOVN_PartsAreNotCreatedYet_AreWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.LBProvider = octavia.ProviderOVN
	s.defaults.LoadBalancer.LBMethod = "SOURCE_IP_PORT"
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	ensure := func() error {
		t.Helper()
		_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service), []*v1.Node{node})
		return err
	}
	if err := ensure(); !isWait(err) {
		t.Fatalf("the creation returned %v", err)
	}
	lb := s.LoadBalancers()[0]
	for _, part := range []string{
		lb.Listeners[0].ID, lb.Pools[0].ID, lb.Pools[0].Members[0].ID,
	} {
		set := func(status string) {
			t.Helper()
			if err := s.SetProvisioningStatus(part, status); err != nil {
				t.Fatal(err)
			}
		}
		set(openstacktest.StatusPendingCreate)
		for range 2 {
			if err := c.forgetList(service.UID); err != nil {
				t.Fatal(err)
			}
			if err := ensure(); !isWait(err) || !strings.Contains(err.Error(), part) {
				t.Errorf("a part is not created yet: %v, want a wait for %s", err, part)
			}
		}
		set(openstacktest.StatusActive)
	}
	c.ensure(service, node)

	// A part that reports its creation later would make the load balancer ACTIVE again.
	member := lb.Pools[0].Members[0].ID
	if err := s.SetProvisioningStatus(member, openstacktest.StatusPendingCreate); err != nil {
		t.Fatal(err)
	}
	mark := s.mark()
	gone := s.now(service)
	now := metav1.Now()
	gone.DeletionTimestamp = &now
	if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", gone); !isWait(err) ||
		len(s.writes(mark)) > 0 {
		t.Errorf("a member is not created yet: %v, and the requests %v; want a wait", err,
			s.writes(mark))
	}
	if err := s.SetProvisioningStatus(member, openstacktest.StatusActive); err != nil {
		t.Fatal(err)
	}
	c.remove(service)
	if left := s.LoadBalancers(); len(left) > 0 {
		t.Errorf("load balancers %v are left", left)
	}
}

// ovn-octavia-provider refuses a member outside the VIP's subnet whose subnet is not named.
func TestOVN_VIPIsBesideTheNodes_EachMemberNamesTheNodesSubnet(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(s *site, network, subnet string, service *v1.Service){
		"subnets of annotations": func(s *site, _, subnet string, service *v1.Service) {
			annotations("subnet-id", subnet, "member-subnet-id", s.subnet)(service)
		},
		"subnets of cloud.conf": func(s *site, _, subnet string, _ *v1.Service) {
			s.defaults.LoadBalancer.SubnetID = subnet
			s.defaults.LoadBalancer.MemberSubnetID = s.subnet
		},
		"network of the VIP": func(_ *site, network, _ string, service *v1.Service) {
			annotations("network-id", network)(service)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.defaults.LoadBalancer.LBProvider = octavia.ProviderOVN
			s.defaults.LoadBalancer.LBMethod = "SOURCE_IP_PORT"
			s.defaults.LoadBalancer.InternalLB = true
			network := s.AddNetwork(openstacktest.Network{Name: "front"})
			subnet := s.AddSubnet(openstacktest.Subnet{
				NetworkID: network, CIDR: "172.16.0.0/24",
			})
			service := s.addService("web", 80, 443)
			place(s, network, subnet, service)
			s.update(service)
			c, a, b := s.begin("cluster-1", s.kube), s.addNode("a"), s.addNode("b")
			for _, nodes := range [][]*v1.Node{{a}, {a, b}} {
				c.ensure(service, nodes...)
				lb := s.LoadBalancers()[0]
				if lb.VIPSubnetID != subnet || len(lb.Pools) != 2 {
					t.Fatalf("the load balancer is %+v, want one in subnet %s", lb, subnet)
				}
				for _, pool := range lb.Pools {
					if len(pool.Members) != len(nodes) {
						t.Errorf("the members are %+v, want %d", pool.Members, len(nodes))
					}
					for _, m := range pool.Members {
						if m.SubnetID != s.subnet {
							t.Errorf("member %s names the subnet %q, want %s", m.Name, m.SubnetID,
								s.subnet)
						}
					}
				}
			}
		})
	}
}
