package plan_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// More stories are run by `make soak`.
var stories = flag.Uint64("stories", 300, "how many random stories to try")

// interruptions is how often the removal of a Service is tried, the last time to its end.
const interruptions = 4

// Plans between any states are interrupted anywhere, with deletions and changes by other clients in
// between. In the end the desired state exists, the plan is empty, and parts of other owners are
// unchanged.
func TestChange_AnySequence_Converges(t *testing.T) {
	for seed := range *stories {
		story := newStory(seed)
		for range 6 {
			story.random()
		}
		story.finish(t)
		story.remove(t)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, story.log)
		}
	}
}

type story struct {
	*rand.Rand
	cloud *cloud
	// others must never change.
	others *cloud
	want   desired.State
	guest  bool
	log    string
}

func newStory(seed uint64) *story {
	s := &story{Rand: rand.New(rand.NewPCG(seed, 1)), cloud: fresh()}
	if s.IntN(3) == 0 {
		s.visit()
	}
	if s.IntN(4) == 0 {
		s.cloud.nodePorts[1].PortSecurity = false
	}
	s.others = s.strange()
	s.want = s.desire()
	return s
}

// visit makes the Service a guest in the load balancer of another Service or a user.
func (s *story) visit() {
	s.guest = true
	name, tags := "mine", []string(nil)
	if s.IntN(2) == 0 {
		name, tags = neighbor().LoadBalancerName(), neighbor().Tags()
	}
	c := s.cloud
	c.role = plan.Guest
	c.lb = &octavia.LoadBalancer{
		ID: "lb-theirs", Name: name, Tags: tags, Status: octavia.Active,
		VIP: octavia.VIP{Address: "10.0.0.9", PortID: "port-theirs", SubnetID: vipSubnet},
	}
	c.ips = []neutron.FloatingIP{{
		ID: "fip-theirs", Address: "203.0.113.200",
		PortID: "port-theirs",
	}}
	s.stranger(tags)
}

func (s *story) stranger(tags []string) {
	c := s.cloud
	id := c.newID("theirs")
	c.pools = append(c.pools, octavia.Pool{
		ID: "pool-" + id, Name: desired.PoolName(0, c.lb.Name) + "x", Protocol: octavia.TCP,
		Algorithm: "LEAST_CONNECTIONS", Status: octavia.Active,
		Members: []octavia.Member{{
			ID: "member-" + id, Address: "10.0.0.99", Port: 1, Weight: 7,
			Backup: true, Status: octavia.Active,
		}},
	})
	c.listeners = append(c.listeners, octavia.Listener{
		ID: "listener-" + id, Name: "theirs", Tags: tags, Protocol: octavia.TCP,
		Port: 9000 + c.count, PoolID: "pool-" + id, ConnectionLimit: 7, Status: octavia.Active,
	})
}

// strange returns the part of the cloud that other owners have.
func (s *story) strange() *cloud {
	c := s.cloud.clone()
	id := shop()
	own := func(tags []string) bool {
		return slices.Contains(tags, id.ServiceTag()) ||
			slices.Contains(tags, id.LoadBalancerName())
	}
	c.listeners = slices.DeleteFunc(c.listeners,
		func(l octavia.Listener) bool { return own(l.Tags) })
	c.pools = slices.DeleteFunc(c.pools, func(p octavia.Pool) bool {
		return len(p.ID) < 11 || p.ID[:11] != "pool-theirs"
	})
	c.ips = slices.DeleteFunc(c.ips,
		func(f neutron.FloatingIP) bool { return f.ID != "fip-theirs" })
	return c
}

func (s *story) tell(format string, arguments ...any) {
	s.log += fmt.Sprintf(format, arguments...) + "\n"
}

// name returns the name of the load balancer, which its parts contain.
func (s *story) name() string {
	if s.guest {
		return s.cloud.lb.Name
	}
	return shop().LoadBalancerName()
}

func pick[T any](s *story, choices ...T) T { return choices[s.IntN(len(choices))] }

// desire returns a random result of desired.Build.
func (s *story) desire() desired.State {
	d := desire()
	d.Features.Serial = s.IntN(4) == 0
	d.Recreate, d.KeepFloatingIP, d.Cascade = s.IntN(4) == 0, s.IntN(4) == 0, s.IntN(4) > 0
	if s.guest {
		d.FloatingIP = nil
	}
	if !s.guest && s.IntN(3) == 0 {
		internal(&d)
	} else if !s.guest && s.IntN(3) == 0 {
		asking(pick(s, "203.0.113.201", "203.0.113.202"))(&d)
	}
	d.LoadBalancer.FlavorID = pick(s, "", "", "", "flavor-a", "flavor-b")
	var names []string
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		if s.IntN(4) > 0 {
			names = append(names, name)
		}
	}
	d.Ports = nil
	for _, port := range []int{80, 443, 53, 8080} {
		if s.IntN(3) > 0 {
			d.Ports = append(d.Ports, s.port(len(d.Ports), port, names))
		}
	}
	s.Shuffle(len(d.Ports), func(i, j int) { d.Ports[i], d.Ports[j] = d.Ports[j], d.Ports[i] })
	for i := range d.Ports {
		p := &d.Ports[i]
		p.Listener.Name, p.Pool.Name = desired.ListenerName(i, s.name()),
			desired.PoolName(i, s.name())
		if p.Pool.Monitor != nil {
			p.Pool.Monitor.Name = desired.MonitorName(i, s.name())
		}
	}
	d.Backends = nil
	for _, name := range names {
		d.Backends = append(d.Backends, backend(name))
	}
	if s.IntN(2) == 0 {
		guarded(&d)
	}
	return d
}

func (s *story) port(index, number int, names []string) octavia.Port {
	listener := pick(s, octavia.TCP, octavia.TCP, octavia.HTTP, octavia.TerminatedHTTPS,
		octavia.UDP)
	p := portOf(index, listener, number, s.name(), names...)
	switch listener {
	case octavia.TCP:
		p.Pool.Protocol = pick(s, octavia.TCP, octavia.TCP, octavia.Proxy, octavia.ProxyV2)
	case octavia.HTTP, octavia.TerminatedHTTPS:
		p.Pool.Protocol = pick(s, octavia.HTTP, octavia.Proxy)
		p.Listener.InsertHeaders = pick(s, nil, map[string]string{"X-Forwarded-For": "true"})
	}
	p.Listener.ConnectionLimit = pick(s, -1, 100)
	p.Listener.AllowedCIDRs = pick(s, []string{"0.0.0.0/0"}, []string{"192.0.2.0/24"})
	p.Pool.Algorithm, p.Pool.Persistence = pick(s, "ROUND_ROBIN", "SOURCE_IP"),
		pick[octavia.Persistence](s, "", "SOURCE_IP")
	if s.IntN(2) == 0 {
		p.Pool.Monitor = monitor(index, s.name(),
			pick(s, octavia.MonitorTCP, octavia.MonitorHTTP))
		p.Pool.Monitor.Delay = pick(s, 5, 10)
		if p.Pool.Monitor.Type == octavia.MonitorHTTP {
			p.Pool.Monitor.URLPath = pick(s, "/healthz", "/ready")
		}
	}
	subnet, health := pick(s, vipSubnet, "", "subnet-nodes"), pick(s, 0, 32000)
	for i := range p.Pool.Members {
		m := &p.Pool.Members[i]
		m.SubnetID, m.MonitorPort, m.Weight = subnet, health, pick(s, 0, 1, 1)
	}
	return p
}

// random is a pass that may be interrupted, after random damage.
func (s *story) random() {
	if s.IntN(2) == 0 {
		s.want = s.desire()
	}
	for range s.IntN(3) {
		s.damage()
	}
	s.cloud.lookFor(s.want)
	p := plan.Change(s.want, s.cloud.observe(s.IntN(2) == 0))
	steps := len(p.Steps)
	if s.IntN(2) == 0 {
		steps = s.IntN(len(p.Steps) + 1)
	}
	s.tell("%d steps of\n%s", steps, p)
	if err := s.cloud.run(p, steps); err != nil {
		s.tell("REFUSED %v", err)
	}
}

func (s *story) damage() {
	c := s.cloud
	if c.lb == nil {
		return
	}
	own := func() *octavia.Listener {
		var found []*octavia.Listener
		for i := range c.listeners {
			if slices.Contains(c.listeners[i].Tags, shop().LoadBalancerName()) {
				found = append(found, &c.listeners[i])
			}
		}
		if len(found) == 0 {
			return nil
		}
		return found[s.IntN(len(found))]
	}
	l := own()
	if l == nil {
		return
	}
	pool := c.pool(l.PoolID)
	kind := s.IntN(16)
	s.tell("damage %d to %s", kind, l.ID)
	// A guest's pool that OCCM has created is identified only by its listener.
	if s.guest && pool != nil && len(pool.Tags) == 0 && kind == 0 {
		return
	}
	switch {
	case kind == 0:
		c.listeners = slices.DeleteFunc(c.listeners,
			func(other octavia.Listener) bool { return other.ID == l.ID })
	case kind == 1:
		l.Status = octavia.InError
	case kind == 2:
		l.ConnectionLimit, l.AllowedCIDRs = 5, nil
	case kind == 3 && !s.guest:
		c.lb.Status = octavia.InError
	case kind == 4 && !s.guest:
		_ = c.deleteLoadBalancer(plan.DeleteLoadBalancer{ID: c.lb.ID, Cascade: true})
	case kind == 5 && !s.guest:
		c.lb.Tags = nil
	case kind == 6 && len(c.ips) > 0 && !s.guest:
		c.ips[0].PortID = ""
	case kind == 7 && !s.guest:
		c.ips = nil
	case kind == 8 && c.group != nil:
		c.group.Rules, c.nodePorts[0].SecurityGroups = nil, []string{"default"}
	case kind == 9 && c.group != nil && !slices.Contains(c.nodePorts[2].SecurityGroups, c.group.ID):
		c.nodePorts[2].SecurityGroups = append(c.nodePorts[2].SecurityGroups, c.group.ID)
	case pool == nil:
	case kind == 10:
		_ = c.takePool(plan.DeletePool{ID: pool.ID})
	case kind == 11:
		pool.Status, pool.Members = octavia.InError, nil
	case kind == 12 && len(pool.Members) > 0:
		pool.Members[0].Address, pool.Members[0].Weight = "10.0.0.77", 3
	case kind == 14:
		// The tags are as OCCM sets them.
		l.Tags, pool.Tags = []string{shop().LoadBalancerName()}, nil
	case kind == 15:
		pool.Protocol = pick(s, octavia.TCP, octavia.HTTP, octavia.Proxy)
	case kind == 13:
		// Two listeners share a pool.
		other := own()
		left := c.pool(other.PoolID)
		if fits(other.Protocol, pool.Protocol) && (!s.guest || left == nil || len(left.Tags) > 0) {
			other.PoolID = pool.ID
		}
	}
}

// finish plans and runs until the plan is empty, and compares.
func (s *story) finish(t *testing.T) {
	t.Helper()
	s.want = s.desire()
	// One plan is enough, except after a failover.
	for more := true; more; {
		p := change(s.cloud, s.want)
		s.tell("all of\n%s", p)
		more = slices.Contains(kinds(p), "FailoverLoadBalancer")
		if err := s.cloud.run(p, len(p.Steps)); err != nil {
			t.Errorf("a step is refused: %v", err)
			return
		}
	}
	for _, inPart := range []bool{false, true} {
		if p := plan.Change(s.want, s.cloud.observe(inPart)); len(p.Steps) > 0 {
			t.Errorf("the plan does not become empty (in part: %v):\n%s", inPart, p)
		}
	}
	s.compare(t)
	s.compareOthers(t)
}

// compare verifies the desired state independently of the plan.
func (s *story) compare(t *testing.T) {
	t.Helper()
	c, d := s.cloud, s.want
	if c.lb == nil || c.lb.Status != octavia.Active {
		t.Errorf("the load balancer is %v", c.lb)
		return
	}
	used := map[string]bool{}
	listeners, pools := len(s.others.listeners), len(s.others.pools)
	for _, want := range d.Ports {
		i := slices.IndexFunc(c.listeners,
			func(l octavia.Listener) bool { return l.Key() == want.Listener.Key() })
		if i < 0 {
			t.Errorf("the listener for %s is missing", want.Name)
			continue
		}
		got := c.listeners[i]
		pool := c.pool(got.PoolID)
		if pool == nil || used[pool.ID] {
			t.Errorf("%s shares its pool", want.Name)
			continue
		}
		used[pool.ID] = true
		comparePort(t, want, got, *pool)
	}
	if got := len(c.listeners); got != listeners+len(d.Ports) {
		t.Errorf("%d listeners, want %d", got, listeners+len(d.Ports))
	}
	if got := len(c.pools); got != pools+len(d.Ports) {
		t.Errorf("%d pools, want %d", got, pools+len(d.Ports))
	}
	for _, tag := range d.Identity.Tags() {
		if !slices.Contains(c.lb.Tags, tag) {
			t.Errorf("the load balancer has no tag %s", tag)
		}
	}
	if !s.guest {
		s.compareFloatingIP(t)
	}
	s.compareGroup(t)
}

func comparePort(t *testing.T, want octavia.Port, l octavia.Listener, pool octavia.Pool) {
	t.Helper()
	expected := want.Listener
	expected.ID, expected.Name, expected.PoolID, expected.Status = l.ID, l.Name, l.PoolID,
		octavia.Active
	if len(expected.InsertHeaders) == 0 && len(l.InsertHeaders) == 0 {
		expected.InsertHeaders = l.InsertHeaders
	}
	if !reflect.DeepEqual(l, expected) {
		t.Errorf("the listener of %s is\n%+v, not\n%+v", want.Name, l, expected)
	}
	if pool.Protocol != want.Pool.Protocol || pool.Algorithm != want.Pool.Algorithm ||
		pool.Persistence != want.Pool.Persistence || pool.Status != octavia.Active {
		t.Errorf("the pool of %s is\n%+v, not\n%+v", want.Name, pool, want.Pool)
	}
	got, should := map[octavia.MemberKey]octavia.Member{},
		map[octavia.MemberKey]octavia.Member{}
	for _, m := range pool.Members {
		m.ID, m.Status, m.SubnetID = "", "", or(m.SubnetID, vipSubnet)
		got[m.Key()] = m
	}
	for _, m := range want.Pool.Members {
		if m.SubnetID == "" {
			m.SubnetID = got[m.Key()].SubnetID
		}
		should[m.Key()] = m
	}
	if !maps.Equal(got, should) {
		t.Errorf("the members of %s are\n%+v, not\n%+v", want.Name, got, should)
	}
	var is, wanted octavia.Monitor
	if pool.Monitor != nil {
		is = *pool.Monitor
		is.ID, is.Name, is.Status = "", "", ""
	}
	if want.Pool.Monitor != nil {
		wanted = *want.Pool.Monitor
		wanted.Name = ""
	}
	if is != wanted {
		t.Errorf("the monitor of %s is %+v, not %+v", want.Name, is, wanted)
	}
}

func (s *story) compareFloatingIP(t *testing.T) {
	t.Helper()
	wanted := s.want.FloatingIP
	attached, idle := 0, 0
	for _, f := range s.cloud.ips {
		switch {
		case f.PortID == "":
			idle++
		case f.PortID != s.cloud.lb.VIP.PortID:
			t.Errorf("floating IP %s points to %s", f.Address, f.PortID)
		case wanted != nil && wanted.Address != "" && f.Address != wanted.Address:
			t.Errorf("the floating IP is %s, not %s", f.Address, wanted.Address)
		default:
			attached++
		}
	}
	if want := map[bool]int{true: 1, false: 0}[wanted != nil]; attached != want {
		t.Errorf("%d floating IPs are attached, not %d", attached, want)
	}
	if idle > 0 && !s.want.KeepFloatingIP {
		t.Errorf("%d floating IPs are detached", idle)
	}
}

func (s *story) compareGroup(t *testing.T) {
	t.Helper()
	c, d := s.cloud, s.want
	if (c.group != nil) != (d.SecurityGroup != nil) {
		t.Errorf("the security group is %v, not %v", c.group, d.SecurityGroup)
		return
	}
	if c.group == nil {
		return
	}
	if len(c.group.Rules) != len(d.SecurityGroup.Rules) {
		t.Errorf("the rules are %v, not %v", c.group.Rules, d.SecurityGroup.Rules)
	}
	for _, r := range d.SecurityGroup.Rules {
		if !slices.ContainsFunc(c.group.Rules, r.Same) {
			t.Errorf("the rule %v is missing", r)
		}
	}
	for _, port := range c.nodePorts {
		member := slices.ContainsFunc(d.Backends,
			func(b desired.Backend) bool {
				return b.ServerID == port.ServerID
			}) && port.PortSecurity
		if has := slices.Contains(port.SecurityGroups, c.group.ID); has != member {
			t.Errorf("port %s has the group: %v", port.ID, has)
		}
	}
}

func (s *story) compareOthers(t *testing.T) {
	t.Helper()
	now := s.strange()
	if !reflect.DeepEqual(now.listeners, s.others.listeners) &&
		len(now.listeners)+len(s.others.listeners) > 0 {
		t.Errorf("others' listeners are\n%+v, not\n%+v", now.listeners, s.others.listeners)
	}
	if !reflect.DeepEqual(now.pools, s.others.pools) && len(now.pools)+len(s.others.pools) > 0 {
		t.Errorf("others' pools are\n%+v, not\n%+v", now.pools, s.others.pools)
	}
	if !s.guest {
		return
	}
	if !reflect.DeepEqual(now.ips, s.others.ips) {
		t.Errorf("others' floating IPs are\n%+v, not\n%+v", now.ips, s.others.ips)
	}
	for _, tag := range s.others.lb.Tags {
		if !slices.Contains(now.lb.Tags, tag) {
			t.Errorf("the load balancer has lost tag %s", tag)
		}
	}
}

// remove deletes the Service, with interruptions, and checks that nothing remains.
func (s *story) remove(t *testing.T) {
	t.Helper()
	options := plan.RemovalOptions{
		Cascade: s.IntN(2) == 0, Tags: s.IntN(2) == 0,
		KeepFloatingIP: s.IntN(4) == 0,
	}
	for i := range interruptions {
		p := plan.Removal(shop(), s.cloud.observe(s.IntN(2) == 0), options)
		steps := len(p.Steps)
		if i < interruptions-1 {
			steps = s.IntN(len(p.Steps) + 1)
		}
		s.tell("removal: %d steps of\n%s", steps, p)
		if err := s.cloud.run(p, steps); err != nil {
			t.Errorf("a step is refused: %v", err)
			return
		}
	}
	if p := plan.Removal(shop(), s.cloud.observe(false), options); len(p.Steps) > 0 {
		t.Errorf("the removal is incomplete:\n%s", p)
	}
	c := s.cloud
	if c.group != nil {
		t.Errorf("the security group is left")
	}
	s.compareOthers(t)
	if !s.guest {
		if c.lb != nil || len(c.ips) > 0 && !options.KeepFloatingIP && !s.want.KeepFloatingIP {
			t.Errorf("the load balancer %v and the floating IPs %v remain", c.lb, c.ips)
		}
		return
	}
	if len(c.listeners) != len(s.others.listeners) || len(c.pools) != len(s.others.pools) ||
		!slices.Equal(c.lb.Tags, s.others.lb.Tags) {
		t.Errorf("the listeners %v, pools %v and tags %v remain", c.listeners, c.pools, c.lb.Tags)
	}
}
