package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// What somebody else does to a load balancer is put right, though nothing has happened in the
// cluster.
func TestLoadBalancer_ChangedByAnotherHand_IsRepaired(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "drift-1", "drift-2")
	r := serving(t, s, balancing(s, drifting))
	service := served(t, "drift", annotated(annotation+"enable-health-monitor", "true"))
	id := s.balancerOf(service).ID
	right := shape(s.balancerOf(service))
	for _, by := range []struct {
		name    string
		disturb func(*openstacktest.LoadBalancer)
	}{
		{"member deleted", func(lb *openstacktest.LoadBalancer) { lb.Pools[0].Members = lb.Pools[0].Members[1:] }},
		{"member elsewhere", func(lb *openstacktest.LoadBalancer) { lb.Pools[0].Members[0].Address = "10.0.250.1" }},
		{"member drained", func(lb *openstacktest.LoadBalancer) { lb.Pools[0].Members[0].Weight = 0 }},
		{"monitor deleted", func(lb *openstacktest.LoadBalancer) { lb.Pools[0].Monitor = nil }},
		{"another algorithm", func(lb *openstacktest.LoadBalancer) { lb.Pools[0].LBAlgorithm = "SOURCE_IP" }},
		{"opened for few", func(lb *openstacktest.LoadBalancer) { lb.Listeners[0].AllowedCIDRs = []string{"198.51.100.0/24"} }},
		{"limited", func(lb *openstacktest.LoadBalancer) { lb.Listeners[0].ConnectionLimit = 1 }},
		{"no default pool", func(lb *openstacktest.LoadBalancer) { lb.Listeners[0].DefaultPoolID = "" }},
		{"listener deleted", func(lb *openstacktest.LoadBalancer) { lb.Listeners = nil }},
		{"pool deleted", func(lb *openstacktest.LoadBalancer) { lb.Pools, lb.Listeners[0].DefaultPoolID = nil, "" }},
		{"all deleted", func(lb *openstacktest.LoadBalancer) { lb.Listeners, lb.Pools = nil, nil }},
	} {
		if !t.Run(by.name, func(t *testing.T) {
			s := s.in(t)
			s.meddle(id, by.disturb)
			if shape(s.balancerOf(service)) == right {
				t.Fatal("that was no change")
			}
			s.waitShape(service, right)
		}) {
			return
		}
	}
	t.Run("load balancer deleted", func(t *testing.T) {
		s := s.in(t)
		s.must(s.DeleteLoadBalancer(id))
		ccmtest.Eventually(t, "there is another load balancer, which the Service names",
			func(context.Context) (bool, error) {
				now := getService(t, shared.Client(t), "drift")
				lb, err := s.LoadBalancer(now.Annotations[annotationID])
				switch {
				case err != nil:
					return false, err
				case lb.ID == id || lb.ProvisioningStatus != openstacktest.StatusActive ||
					shape(lb) != right:
					return false, fmt.Errorf("it is %s, %s", lb.ID, shape(lb))
				case len(s.floatingIPs(lb)) != 1 ||
					now.Status.LoadBalancer.Ingress[0].IP != s.floatingIPs(lb)[0].Address:
					return false,
						fmt.Errorf("it has the floating IPs %v, the Service %+v", s.floatingIPs(lb),
							now.Status)
				}
				return true, nil
			})
		if n := len(s.LoadBalancers()); n != 1 {
			t.Errorf("there are %d load balancers", n)
		}
		if n := len(s.FloatingIPs()); n != 1 {
			t.Errorf("there are %d floating IPs, want the one that there was", n)
		}
	})
	t.Run("floating IP deleted", func(t *testing.T) {
		s := s.in(t)
		s.must(s.DeleteFloatingIP(s.FloatingIPs()[0].ID))
		s.waitAddressed("drift")
	})
	t.Run("floating IP detached", func(t *testing.T) {
		s := s.in(t)
		s.must(s.UpdateFloatingIP(s.FloatingIPs()[0].ID,
			func(f *openstacktest.FloatingIP) { f.PortID, f.FixedAddress = "", "" }))
		s.waitAddressed("drift")
		if n := len(s.FloatingIPs()); n != 1 {
			t.Errorf("there are %d floating IPs, want the one that there was", n)
		}
	})
	deleteService(t, shared.Client(t), "drift")
	s.wantNothingLeft()
	r.unbroken()
}

// meddle changes a load balancer as somebody with Octavia's client does, who leaves no other trace
// than the time.
func (s *site) meddle(id string, change func(*openstacktest.LoadBalancer)) {
	s.t.Helper()
	s.must(s.ChangeLoadBalancer(id, func(lb *openstacktest.LoadBalancer) {
		change(lb)
		lb.UpdatedAt = lb.UpdatedAt.Add(time.Second)
	}))
}

// Octavia tells times to the second, so a change may leave no trace at all.
func TestLoadBalancer_ChangedInTheSecondOfItsLastChange_IsRepaired(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "second-1", "second-2")
	serving(t, s, balancing(s, drifting))
	service := served(t, "second", internal())
	s.must(s.ChangeLoadBalancer(s.balancerOf(service).ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members = lb.Pools[0].Members[1:]
	}))
	s.waitShape(service, s.usual(service, machines...))
}

// waitAddressed waits until a floating IP leads to the Service's load balancer, and the Service
// shows it.
func (s *site) waitAddressed(name string) {
	s.t.Helper()
	ccmtest.Eventually(s.t, "a floating IP leads to the load balancer, and the Service shows it",
		func(context.Context) (bool, error) {
			now := getService(s.t, shared.Client(s.t), name)
			ips := s.floatingIPs(s.balancerOf(now))
			if in := now.Status.LoadBalancer.Ingress; len(ips) != 1 || len(in) != 1 ||
				in[0].IP != ips[0].Address {
				return false,
					fmt.Errorf("it has the floating IPs %v, the Service shows %+v", ips, in)
			}
			return true, nil
		})
}

func TestLoadBalancer_SecurityGroupChangedByAnotherHand_IsRepaired(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "drift-group-1", "drift-group-2")
	serving(t, s,
		balancing(s, drifting, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }))
	service := served(t, "drift-group", internal())
	s.waitGroup(service, machines...)
	group := s.groups()[0].ID
	for name, disturb := range map[string]func() error{
		"rule deleted": func() error {
			for _, r := range s.SecurityGroupRules() {
				if r.SecurityGroupID == group {
					return s.DeleteSecurityGroupRule(r.ID)
				}
			}
			return errors.New("there is no rule")
		},
		"taken from a node": func() error {
			return s.UpdatePort(machines[0].port,
				func(p *openstacktest.Port) { p.SecurityGroups = []string{} })
		},
		"deleted": func() error {
			for _, m := range machines {
				if err := s.UpdatePort(m.port,
					func(p *openstacktest.Port) { p.SecurityGroups = []string{} }); err != nil {
					return err
				}
			}
			return s.DeleteSecurityGroup(group)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.must(disturb())
			s.waitGroup(service, machines...)
			group = s.groups()[0].ID
		})
	}
}

// Looking for changes costs few calls, and none that changes anything.
func TestLoadBalancer_ThatIsAsItShouldBe_IsOnlyLookedAt(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "calm-1")
	serving(t, s, balancing(s, drifting))
	served(t, "calm", ccmtest.ServicePorts(1, 2, 3))
	s.waitQuiet(loadBalancerChanges)
	before := s.mark()
	s.waitCalls(before, 10, operations("loadbalancer_*"), "load balancers are looked at")
	if made := s.since(before, loadBalancerChanges); len(made) > 0 {
		t.Errorf("what was as it should be has been changed:\n%s", describe(made))
	}
}
