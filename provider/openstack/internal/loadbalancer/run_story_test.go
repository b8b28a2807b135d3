package loadbalancer

import (
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Three plans together contain every step: one creates a load balancer part by part, one changes
// all of it, one removes it.

func lbRef() plan.Ref    { return plan.LoadBalancerRef() }
func groupRef() plan.Ref { return plan.GroupRef() }

func wantedBalancer(s *runSite) octavia.LoadBalancer {
	return octavia.LoadBalancer{
		Name: "lb", Description: "d", Tags: []string{"a"},
		VIP: octavia.VIP{SubnetID: s.subnet},
	}
}

func tcpListener() octavia.Listener {
	return octavia.Listener{
		Name: "listener_0", Tags: []string{"a"}, Protocol: octavia.TCP,
		Port: 80, ConnectionLimit: -1,
	}
}

func tcpPool() octavia.Pool {
	return octavia.Pool{Name: "pool_0", Protocol: octavia.TCP, Algorithm: "ROUND_ROBIN"}
}

func tcpMonitor() octavia.Monitor {
	return octavia.Monitor{
		Name: "monitor_0", Type: octavia.MonitorTCP, Delay: 5, Timeout: 3,
		MaxRetries: 1, MaxRetriesDown: 3,
	}
}

func member(name, address string) octavia.Member {
	return octavia.Member{Name: name, Address: address, Port: 30080, Weight: 1}
}

func wantedIP(s *runSite) neutron.WantedFloatingIP {
	return neutron.WantedFloatingIP{
		NetworkID: s.external, SubnetIDs: []string{s.floating},
		Description: "for lb", Tags: []string{"a"},
	}
}

func rule(port int) neutron.Rule {
	return neutron.Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: port,
		PortMax: port, RemotePrefix: "10.0.0.0/16",
	}
}

// nodePort makes the port of a node.
func (s *runSite) nodePort(address string) string {
	return s.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceID: "server-" + address,
		DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs:    []openstacktest.FixedIP{{SubnetID: s.subnet, Address: address}},
	})
}

// portSeen returns the observed port of a node.
func (s *runSite) portSeen(id string) neutron.NodePort {
	for _, p := range s.Ports() {
		if p.ID == id {
			return neutron.NodePort{
				ID: p.ID, ServerID: p.DeviceID,
				SecurityGroups: p.SecurityGroups, PortSecurity: true, Revision: p.RevisionNumber,
			}
		}
	}
	s.t.Fatalf("port %s does not exist", id)
	return neutron.NodePort{}
}

// creation creates a bare load balancer, and then its parts and related objects.
func creation(s *runSite) (*octavia.LoadBalancer, []plan.Step) {
	node := s.nodePort("10.0.0.101")
	udp := octavia.Listener{
		Name: "listener_1", Protocol: octavia.UDP, Port: 53,
		ConnectionLimit: -1,
	}
	return nil, []plan.Step{
		plan.CreateLoadBalancer{LoadBalancer: wantedBalancer(s), Bare: true},
		plan.CreateFloatingIP{LoadBalancer: lbRef(), Wanted: wantedIP(s)},
		plan.CreatePool{LoadBalancer: lbRef(), Pool: tcpPool()},
		plan.CreateMonitor{
			Pool: plan.Ref{Made: "pool_0"}, PoolName: "pool_0",
			Monitor: tcpMonitor(),
		},
		plan.CreateMember{
			Pool: plan.Ref{Made: "pool_0"}, PoolName: "pool_0",
			Member: member("node-1", "10.0.0.101"),
		},
		plan.CreateMember{
			Pool: plan.Ref{Made: "pool_0"}, PoolName: "pool_0",
			Member: member("node-2", "10.0.0.102"),
		},
		plan.CreateListener{
			LoadBalancer: lbRef(), Listener: tcpListener(),
			Pool: plan.Ref{Made: "pool_0"},
		},
		plan.CreateListener{LoadBalancer: lbRef(), Listener: udp},
		plan.CreatePool{
			LoadBalancer: lbRef(), Listener: plan.Ref{Made: "listener_1"},
			Pool: octavia.Pool{Name: "pool_1", Protocol: octavia.UDP, Algorithm: "SOURCE_IP"},
		},
		plan.SetMembers{
			Pool: plan.Ref{Made: "pool_1"}, PoolName: "pool_1",
			Members: []octavia.Member{
				member("node-1", "10.0.0.101"),
				member("node-2", "10.0.0.102"),
			},
		},
		plan.CreateSecurityGroup{Group: neutron.SecurityGroup{
			Name: "group", Description: "d",
			Tags: []string{"a"},
		}},
		plan.CreateRule{Group: groupRef(), Rule: rule(30080)},
		plan.AddGroup{Group: groupRef(), Port: s.portSeen(node), Node: "node-1"},
	}
}

// built returns a load balancer after all steps of creation.
func (s *runSite) built() (*octavia.LoadBalancer, openstacktest.LoadBalancer) {
	s.t.Helper()
	_, steps := creation(s)
	done, err := s.run(nil, unlimited, steps...)
	s.must(err)
	if s.time != nil {
		for !isSettled(s.is(done.loadBalancer.ID).ProvisioningStatus) {
			s.time.Step(1e9)
		}
	}
	s.ForgetCalls()
	s.lines.Lock()
	defer s.lines.Unlock()
	s.said, s.done = nil, nil
	return s.seen(done.loadBalancer.ID), s.is(done.loadBalancer.ID)
}

func isSettled(status string) bool { return !octavia.Status(status).Pending() }

// alteration changes all objects.
func alteration(s *runSite) (*octavia.LoadBalancer, []plan.Step) {
	seen, lb := s.built()
	ip, group, groupRule := s.FloatingIPs()[0], s.group(), s.SecurityGroupRules()
	groupRule = slices.DeleteFunc(groupRule, func(r openstacktest.SecurityGroupRule) bool {
		return r.SecurityGroupID != group.ID
	})
	node := s.Ports()[slices.IndexFunc(s.Ports(), func(p openstacktest.Port) bool {
		return p.DeviceOwner == openstacktest.OwnerCompute
	})]
	monitor := tcpMonitor()
	monitor.Delay = 60
	pool := tcpPool()
	pool.Algorithm, pool.Persistence = "LEAST_CONNECTIONS", "SOURCE_IP"
	listener := tcpListener()
	listener.ConnectionLimit, listener.AllowedCIDRs = 5, []string{"10.0.0.0/8"}
	second := octavia.Pool{
		Name: "pool_2", Tags: []string{"a"}, Protocol: octavia.TCP,
		Algorithm: "SOURCE_IP",
	}
	renamed := member("renamed", "10.0.0.101")
	renamed.Weight = 0
	return seen, []plan.Step{
		plan.UpdateLoadBalancer{ID: lb.ID, Name: "lb", Tags: []string{"a", "b"}},
		plan.CreatePool{LoadBalancer: plan.Ref{ID: lb.ID}, Pool: second},
		plan.UpdateListener{
			ID: lb.Listeners[0].ID, Listener: listener,
			Pool: plan.Ref{Made: "pool_2"},
		},
		plan.UpdatePool{ID: lb.Pools[0].ID, Pool: pool},
		plan.UpdateMonitor{ID: lb.Pools[0].Monitor.ID, Monitor: monitor},
		plan.UpdateMember{
			PoolID: lb.Pools[0].ID, PoolName: "pool_0", ID: lb.Pools[0].Members[0].ID,
			Member: renamed,
		},
		plan.DeleteMember{
			PoolID: lb.Pools[0].ID, PoolName: "pool_0", ID: lb.Pools[0].Members[1].ID,
			Name: "node-2",
		},
		plan.FailoverLoadBalancer{ID: lb.ID, Name: "lb"},
		plan.DetachFloatingIP{ID: ip.ID, Address: ip.Address},
		plan.AttachFloatingIP{LoadBalancer: plan.Ref{ID: lb.ID}, ID: ip.ID, Address: ip.Address},
		plan.TagFloatingIP{ID: ip.ID, Address: ip.Address, Tags: []string{"b"}},
		plan.TagSecurityGroup{ID: group.ID, Name: "group", Tags: []string{"b"}},
		plan.CreateRule{Group: plan.Ref{ID: group.ID}, Rule: rule(30081)},
		plan.DeleteRule{ID: groupRule[0].ID, Rule: rule(30080)},
		plan.RemoveGroup{
			GroupID: group.ID, GroupName: "group", Port: s.portSeen(node.ID),
			Node: "node-1",
		},
	}
}

func (s *runSite) group() openstacktest.SecurityGroup {
	s.t.Helper()
	for _, g := range s.SecurityGroups() {
		if g.Name == "group" {
			return g
		}
	}
	s.t.Fatal("the security group does not exist")
	return openstacktest.SecurityGroup{}
}

// removal removes all objects one by one.
func removal(s *runSite) (*octavia.LoadBalancer, []plan.Step) {
	seen, lb := s.built()
	group, ip := s.group(), s.FloatingIPs()[0]
	node := s.Ports()[slices.IndexFunc(s.Ports(), func(p openstacktest.Port) bool {
		return p.DeviceOwner == openstacktest.OwnerCompute
	})]
	return seen, []plan.Step{
		plan.DeleteMonitor{ID: lb.Pools[0].Monitor.ID, Name: "monitor_0"},
		plan.DeleteListener{ID: lb.Listeners[0].ID, Name: "listener_0"},
		plan.DeletePool{ID: lb.Pools[0].ID, Name: "pool_0"},
		plan.DeleteListener{ID: lb.Listeners[1].ID, Name: "listener_1"},
		plan.DeletePool{ID: lb.Pools[1].ID, Name: "pool_1"},
		plan.SeeDeleted{
			LoadBalancerID: lb.ID,
			IDs: []string{
				lb.Listeners[0].ID, lb.Pools[0].ID, lb.Listeners[1].ID,
				lb.Pools[1].ID,
			},
		},
		plan.DeleteFloatingIP{ID: ip.ID, Address: ip.Address},
		plan.RemoveGroup{
			GroupID: group.ID, GroupName: "group", Port: s.portSeen(node.ID),
			Node: "node-1",
		},
		plan.DeleteSecurityGroup{ID: group.ID, Name: "group"},
		plan.DeleteLoadBalancer{ID: lb.ID, Name: "lb"},
	}
}

// runStories returns the plans by name; each creates the objects that it needs.
func runStories() map[string]func(*runSite) (*octavia.LoadBalancer, []plan.Step) {
	return map[string]func(*runSite) (*octavia.LoadBalancer, []plan.Step){
		"creation":   creation,
		"alteration": alteration, "removal": removal,
	}
}
