package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// shop is the Service of most tests.
func shop() balancer.Identity {
	return balancer.Identity{
		ClusterName: "kubernetes", ClusterUID: "cluster-uid",
		Namespace: "shop", Name: "web", UID: "service-uid",
	}
}

// neighbour is another Service of the same cluster.
func neighbour() balancer.Identity {
	id := shop()
	id.Name, id.UID = "api", "neighbour-uid"
	return id
}

// stranger is a Service of another cluster, of the same name.
func stranger() balancer.Identity {
	id := shop()
	id.ClusterUID, id.UID = "other-cluster-uid", "stranger-uid"
	return id
}

func amphora() balancer.Features { return balancer.FeaturesOf("amphora", 27, false) }

// tcp is a port as desired.Build makes it.
func tcp(index, port int, lb string, nodes ...string) balancer.Port {
	return portOf(index, balancer.TCP, port, lb, nodes...)
}

func portOf(index int, protocol string, port int, lb string, nodes ...string) balancer.Port {
	p := balancer.Port{
		Name: fmt.Sprintf("%d/%s", port, balancer.Transport(protocol)),
		Listener: balancer.Listener{
			Name: balancer.ListenerName(index, lb), Tags: shop().Tags(), Protocol: protocol,
			Port: port, ConnectionLimit: -1,
			Timeouts: &balancer.Timeouts{
				ClientData: 50000, MemberConnect: 5000,
				MemberData: 50000,
			},
			AllowedCIDRs: []string{"0.0.0.0/0"},
		},
		Pool: balancer.Pool{
			Name: balancer.PoolName(index, lb), Protocol: protocol,
			Algorithm: "ROUND_ROBIN",
		},
	}
	if protocol == balancer.TerminatedHTTPS {
		p.Pool.Protocol = balancer.HTTP
		p.Listener.TLSContainer = "https://barbican/v1/containers/certificate"
	}
	for _, node := range nodes {
		p.Pool.Members = append(p.Pool.Members, member(node, 30000+port))
	}
	return p
}

func member(node string, port int) balancer.Member {
	return balancer.Member{
		Name: node, Address: addressOf(node), Port: port, SubnetID: vipSubnet,
		Weight: 1,
	}
}

// addressOf is node-1's 10.0.0.11, and so on.
func addressOf(node string) string { return "10.0.0.1" + node[len(node)-1:] }

func backend(node string) balancer.Backend {
	return balancer.Backend{
		Node: node, Address: addressOf(node), SubnetID: vipSubnet,
		ServerID: "server-" + node,
	}
}

func monitor(index int, lb, kind string) *balancer.Monitor {
	m := &balancer.Monitor{
		Name: balancer.MonitorName(index, lb), Type: kind, Delay: 5, Timeout: 3,
		MaxRetries: 1, MaxRetriesDown: 3,
	}
	if kind == balancer.MonitorHTTP {
		m.HTTPMethod, m.URLPath, m.ExpectedCodes = "GET", "/healthz", "200"
	}
	return m
}

// desire is an external Service with two ports and two nodes, and what a test changes of it.
func desire(changes ...func(*balancer.Desired)) balancer.Desired {
	id := shop()
	lb := id.LoadBalancerName()
	d := balancer.Desired{
		Identity: id,
		LoadBalancer: balancer.LoadBalancer{
			Name: lb, Description: id.LoadBalancerDescription(), Tags: id.Tags(),
			VIP: balancer.VIP{SubnetID: vipSubnet},
		},
		Ports: []balancer.Port{
			tcp(0, 80, lb, "node-1", "node-2"),
			tcp(1, 443, lb, "node-1", "node-2"),
		},
		FloatingIP: &balancer.WantedFloatingIP{
			NetworkID: "network-outside", Description: id.FloatingIPDescription(),
			Tags: id.NetworkTags(),
		},
		Backends: []balancer.Backend{backend("node-1"), backend("node-2")},
		Features: amphora(),
		Cascade:  true,
	}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func internal(d *balancer.Desired) { d.FloatingIP = nil }

func serial(d *balancer.Desired) { d.Features.Serial = true }

func recreate(d *balancer.Desired) { d.Recreate = true }

func keep(d *balancer.Desired) { d.KeepFloatingIP = true }

func onePort(d *balancer.Desired) { d.Ports = d.Ports[:1] }

// everyPort changes the ports.
func everyPort(change func(index int, p *balancer.Port)) func(*balancer.Desired) {
	return func(d *balancer.Desired) {
		for i := range d.Ports {
			change(i, &d.Ports[i])
		}
	}
}

func protocols(listener, pool string) func(*balancer.Desired) {
	return everyPort(func(_ int, p *balancer.Port) {
		p.Listener.Protocol, p.Pool.Protocol = listener, pool
	})
}

func monitored(kind string) func(*balancer.Desired) {
	return everyPort(func(i int, p *balancer.Port) {
		p.Pool.Monitor = monitor(i, shop().LoadBalancerName(), kind)
	})
}

func nodes(names ...string) func(*balancer.Desired) {
	return func(d *balancer.Desired) {
		d.Backends = nil
		for _, name := range names {
			d.Backends = append(d.Backends, backend(name))
		}
		everyPort(func(_ int, p *balancer.Port) {
			p.Pool.Members = nil
			for _, name := range names {
				p.Pool.Members = append(p.Pool.Members, member(name, 30000+p.Listener.Port))
			}
		})(d)
	}
}

func guarded(d *balancer.Desired) {
	id := shop()
	group := &balancer.SecurityGroup{
		Name:        id.SecurityGroupName(),
		Description: id.SecurityGroupDescription(), Tags: id.NetworkTags(),
	}
	for _, p := range d.Ports {
		group.Rules = append(group.Rules, rule(30000+p.Listener.Port, "10.0.0.0/24"))
	}
	d.SecurityGroup = group
}

func rule(port int, from string) balancer.Rule {
	return balancer.Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: port,
		PortMax: port, RemotePrefix: from,
	}
}

func asking(address string) func(*balancer.Desired) {
	return func(d *balancer.Desired) {
		wanted := *d.FloatingIP
		wanted.Address = address
		d.FloatingIP = &wanted
	}
}

// fresh is a cloud with three nodes and nothing else.
func fresh() *cloud {
	c := &cloud{role: balancer.Owner}
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		c.nodePorts = append(c.nodePorts, balancer.NodePort{
			ID: "port-" + node, ServerID: "server-" + node,
			Addresses:      []balancer.Address{{SubnetID: vipSubnet, IP: addressOf(node)}},
			SecurityGroups: []string{"default"}, PortSecurity: true, Revision: 1,
		})
	}
	return c
}

// made is a cloud in which a Service is as desired.
func made(t *testing.T, d balancer.Desired) *cloud {
	t.Helper()
	c := fresh()
	c.carryOut(t, d)
	return c
}

// carryOut makes it so, and checks that nothing is left to do.
func (c *cloud) carryOut(t *testing.T, d balancer.Desired) {
	t.Helper()
	p := change(c, d)
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatalf("the plan cannot be carried out: %v\n%s", err, p)
	}
	if again := change(c, d); len(again.Steps) > 0 {
		t.Fatalf("after the plan\n%sthere is still to do:\n%s", p, again)
	}
}

// shared is another Service's load balancer in which shop is a guest.
func shared(t *testing.T) *cloud {
	t.Helper()
	id := neighbour()
	owner := desire(func(d *balancer.Desired) {
		d.Identity = id
		d.LoadBalancer.Name = id.LoadBalancerName()
		d.LoadBalancer.Description = id.LoadBalancerDescription()
		d.LoadBalancer.Tags = id.Tags()
		p := tcp(0, 9000, id.LoadBalancerName(), "node-1")
		p.Listener.Tags = id.Tags()
		d.Ports = []balancer.Port{p}
		d.FloatingIP.Description, d.FloatingIP.Tags = id.FloatingIPDescription(), id.NetworkTags()
	})
	c := made(t, owner)
	c.role = balancer.Guest
	return c
}

// visiting is what shop wants of the load balancer of that name.
func visiting(name string, changes ...func(*balancer.Desired)) balancer.Desired {
	return desire(append([]func(*balancer.Desired){internal, func(d *balancer.Desired) {
		d.Ports = []balancer.Port{
			tcp(0, 80, name, "node-1", "node-2"),
			tcp(1, 443, name, "node-1", "node-2"),
		}
	}}, changes...)...)
}

// byOCCM makes of the cloud what OCCM leaves: only its own tags, and on the load balancer and the
// listeners alone.
func (c *cloud) byOCCM() {
	name := c.lb.Name
	c.lb.Tags = []string{name}
	for i := range c.listeners {
		c.listeners[i].Tags = []string{name}
	}
	for i := range c.pools {
		c.pools[i].Tags = nil
		for j := range c.pools[i].Members {
			// OCCM names the subnet always.
			c.pools[i].Members[j].SubnetID = vipSubnet
		}
	}
	for i := range c.ips {
		c.ips[i].Tags = nil
	}
	if c.group != nil {
		c.group.Tags = nil
	}
}

// kinds are the kinds of a plan's steps, in order.
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

func wantNotice(t *testing.T, p plan.Plan, reason string, blocks bool) {
	t.Helper()
	for _, n := range p.Notices {
		if n.Reason == reason && n.Blocks == blocks {
			return
		}
	}
	t.Errorf("there is no notice %s (blocks: %v):\n%s", reason, blocks, p)
}
