package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/events/eventstest"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// shop is the Service of most tests.
func shop() desired.Identity {
	return desired.Identity{
		ClusterName: "kubernetes", ClusterUID: "cluster-uid",
		Namespace: "shop", Name: "web", UID: "service-uid",
	}
}

// neighbor is another Service of the same cluster.
func neighbor() desired.Identity {
	id := shop()
	id.Name, id.UID = "api", "neighbor-uid"
	return id
}

// stranger is a Service of the same name in another cluster.
func stranger() desired.Identity {
	id := shop()
	id.ClusterUID, id.UID = "other-cluster-uid", "stranger-uid"
	return id
}

func amphora() desired.Features { return desired.FeaturesOf("amphora", 27, false) }

// tcp returns a port as desired.Build does.
func tcp(index, port int, lb string, nodes ...string) octavia.Port {
	return portOf(index, octavia.TCP, port, lb, nodes...)
}

func portOf(index int, protocol string, port int, lb string, nodes ...string) octavia.Port {
	p := octavia.Port{
		Name: fmt.Sprintf("%d/%s", port, octavia.Transport(protocol)),
		Listener: octavia.Listener{
			Name: desired.ListenerName(index, lb), Tags: shop().Tags(), Protocol: protocol,
			Port: port, ConnectionLimit: -1,
			Timeouts: &octavia.Timeouts{
				ClientData: 50000, MemberConnect: 5000,
				MemberData: 50000,
			},
			AllowedCIDRs: []string{"0.0.0.0/0"},
		},
		Pool: octavia.Pool{
			Name: desired.PoolName(index, lb), Protocol: protocol,
			Algorithm: "ROUND_ROBIN",
		},
	}
	if protocol == octavia.TerminatedHTTPS {
		p.Pool.Protocol = octavia.HTTP
		p.Listener.TLSContainer = "https://barbican/v1/containers/certificate"
	}
	for _, node := range nodes {
		p.Pool.Members = append(p.Pool.Members, member(node, 30000+port))
	}
	return p
}

func member(node string, port int) octavia.Member {
	return octavia.Member{
		Name: node, Address: addressOf(node), Port: port, SubnetID: vipSubnet,
		Weight: 1,
	}
}

// addressOf returns 10.0.0.11 for node-1, and so on.
func addressOf(node string) string { return "10.0.0.1" + node[len(node)-1:] }

func backend(node string) desired.Backend {
	return desired.Backend{
		Node: node, Address: addressOf(node), SubnetID: vipSubnet,
		ServerID: "server-" + node,
	}
}

func monitor(index int, lb, kind string) *octavia.Monitor {
	m := &octavia.Monitor{
		Name: desired.MonitorName(index, lb), Type: kind, Delay: 5, Timeout: 3,
		MaxRetries: 1, MaxRetriesDown: 3,
	}
	if kind == octavia.MonitorHTTP {
		m.HTTPMethod, m.URLPath, m.ExpectedCodes = "GET", "/healthz", "200"
	}
	return m
}

// desire returns an external Service with two ports and two nodes, after the changes.
func desire(changes ...func(*desired.State)) desired.State {
	id := shop()
	lb := id.LoadBalancerName()
	d := desired.State{
		Identity: id,
		LoadBalancer: octavia.LoadBalancer{
			Name: lb, Description: id.LoadBalancerDescription(), Tags: id.Tags(),
			VIP: octavia.VIP{SubnetID: vipSubnet},
		},
		Ports: []octavia.Port{
			tcp(0, 80, lb, "node-1", "node-2"),
			tcp(1, 443, lb, "node-1", "node-2"),
		},
		FloatingIP: &neutron.WantedFloatingIP{
			NetworkID: "network-outside", Description: id.FloatingIPDescription(),
			Tags: id.NetworkTags(),
		},
		Backends: []desired.Backend{backend("node-1"), backend("node-2")},
		Features: amphora(),
		Cascade:  true,
	}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func internal(d *desired.State) { d.FloatingIP = nil }

func serial(d *desired.State) { d.Features.Serial = true }

func recreate(d *desired.State) { d.Recreate = true }

func keep(d *desired.State) { d.KeepFloatingIP = true }

func onePort(d *desired.State) { d.Ports = d.Ports[:1] }

// everyPort changes the ports.
func everyPort(change func(index int, p *octavia.Port)) func(*desired.State) {
	return func(d *desired.State) {
		for i := range d.Ports {
			change(i, &d.Ports[i])
		}
	}
}

func protocols(listener, pool string) func(*desired.State) {
	return everyPort(func(_ int, p *octavia.Port) {
		p.Listener.Protocol, p.Pool.Protocol = listener, pool
	})
}

func monitored(kind string) func(*desired.State) {
	return everyPort(func(i int, p *octavia.Port) {
		p.Pool.Monitor = monitor(i, shop().LoadBalancerName(), kind)
	})
}

func nodes(names ...string) func(*desired.State) {
	return func(d *desired.State) {
		d.Backends = nil
		for _, name := range names {
			d.Backends = append(d.Backends, backend(name))
		}
		everyPort(func(_ int, p *octavia.Port) {
			p.Pool.Members = nil
			for _, name := range names {
				p.Pool.Members = append(p.Pool.Members, member(name, 30000+p.Listener.Port))
			}
		})(d)
	}
}

func guarded(d *desired.State) {
	id := shop()
	group := &neutron.SecurityGroup{
		Name:        id.SecurityGroupName(),
		Description: id.SecurityGroupDescription(), Tags: id.NetworkTags(),
	}
	for _, p := range d.Ports {
		group.Rules = append(group.Rules, rule(30000+p.Listener.Port, "10.0.0.0/24"))
	}
	d.SecurityGroup = group
}

func rule(port int, from string) neutron.Rule {
	return neutron.Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: port,
		PortMax: port, RemotePrefix: from,
	}
}

func asking(address string) func(*desired.State) {
	return func(d *desired.State) {
		wanted := *d.FloatingIP
		wanted.Address = address
		d.FloatingIP = &wanted
	}
}

// fresh returns a cloud with only three nodes.
func fresh() *cloud {
	c := &cloud{role: plan.Owner}
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		c.nodePorts = append(c.nodePorts, neutron.NodePort{
			ID: "port-" + node, ServerID: "server-" + node,
			Addresses:      []neutron.Address{{SubnetID: vipSubnet, IP: addressOf(node)}},
			SecurityGroups: []string{"default"}, PortSecurity: true, Revision: 1,
		})
	}
	return c
}

// made returns a cloud in which a Service is as desired.
func made(t *testing.T, d desired.State) *cloud {
	t.Helper()
	c := fresh()
	c.carryOut(t, d)
	return c
}

// carryOut runs the plan for the desired state, and checks that the next plan is empty.
func (c *cloud) carryOut(t *testing.T, d desired.State) {
	t.Helper()
	p := change(c, d)
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatalf("the plan cannot be carried out: %v\n%s", err, p)
	}
	if again := change(c, d); len(again.Steps) > 0 {
		t.Fatalf("after the plan\n%sthese steps remain:\n%s", p, again)
	}
}

// shared returns another Service's load balancer in which shop is a guest.
func shared(t *testing.T) *cloud {
	t.Helper()
	id := neighbor()
	owner := desire(func(d *desired.State) {
		d.Identity = id
		d.LoadBalancer.Name = id.LoadBalancerName()
		d.LoadBalancer.Description = id.LoadBalancerDescription()
		d.LoadBalancer.Tags = id.Tags()
		p := tcp(0, 9000, id.LoadBalancerName(), "node-1")
		p.Listener.Tags = id.Tags()
		d.Ports = []octavia.Port{p}
		d.FloatingIP.Description, d.FloatingIP.Tags = id.FloatingIPDescription(), id.NetworkTags()
	})
	c := made(t, owner)
	c.role = plan.Guest
	return c
}

// visiting returns the desired state of shop as a guest in the load balancer of that name.
func visiting(name string, changes ...func(*desired.State)) desired.State {
	return desire(append([]func(*desired.State){internal, func(d *desired.State) {
		d.Ports = []octavia.Port{
			tcp(0, 80, name, "node-1", "node-2"),
			tcp(1, 443, name, "node-1", "node-2"),
		}
	}}, changes...)...)
}

// byOCCM changes the cloud to the state that OCCM creates: only its own tags, and only on the load
// balancer and the listeners.
func (c *cloud) byOCCM() {
	name := c.lb.Name
	c.lb.Tags = []string{name}
	for i := range c.listeners {
		c.listeners[i].Tags = []string{name}
	}
	for i := range c.pools {
		c.pools[i].Tags = nil
		for j := range c.pools[i].Members {
			// OCCM always names the subnet.
			c.pools[i].Members[j].SubnetID = vipSubnet
		}
	}
	for i := range c.ips {
		c.ips[i].Tags = []string{}
	}
	if c.group != nil {
		c.group.Tags = []string{}
	}
}

// kinds returns the kinds of a plan's steps, in order.
func kinds(p plan.Plan) []string {
	var all []string
	for _, s := range p.Steps {
		all = append(all, fmt.Sprintf("%T", s)[len("plan."):])
	}
	return all
}

func wantKinds(t *testing.T, p plan.Plan, want ...string) {
	t.Helper()
	if got := kinds(p); !slices.Equal(got, want) {
		t.Errorf("the steps are\n%v, not\n%v:\n%s", got, want, p)
	}
}

func wantNotice(t *testing.T, p plan.Plan, reason events.Reason, blocks bool) {
	t.Helper()
	for _, n := range p.Notices {
		if n.Reason == reason && n.Blocks == blocks {
			eventstest.CheckShape(t, n.Message)
			return
		}
	}
	t.Errorf("the notice %s (blocks: %v) is missing:\n%s", reason, blocks, p)
}
