package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// change returns the plan for a cloud whose state is fully known.
func change(c *cloud, d desired.State) plan.Plan {
	c.lookFor(d)
	return plan.Change(d, c.observe(false))
}

func (c *cloud) lookFor(d desired.State) {
	c.asked, c.named, c.poolTag, c.last = "", "", "", d.Identity.LastAddress
	if d.FloatingIP != nil {
		c.asked, c.named, c.poolTag = d.FloatingIP.Address, d.FloatingIP.ID, d.FloatingIP.PoolTag
	}
}

func wantNothing(t *testing.T, p plan.Plan) {
	t.Helper()
	if len(p.Steps) > 0 {
		t.Errorf("the plan is not empty:\n%s", p)
	}
}

func TestLoadBalancer_OfAnotherName_RenamesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"kube_service_kube_shop_web", "kube_service_old_shop_web",
		"a1234567890",
	} {
		t.Run(name, func(t *testing.T) {
			c := made(t,
				desire(monitored(octavia.MonitorTCP),
					func(d *desired.State) { d.LoadBalancer.Name = name }))
			for i := range c.listeners {
				c.listeners[i].Name = desired.ListenerName(i, name)
				c.listeners[i].Tags = []string{name}
			}
			c.lb.Tags = append([]string{name}, shop().NetworkTags()...)
			if name[0] == 'a' {
				c.listeners[0].Tags, c.listeners[1].Tags = nil, nil
			}
			before := c.clone()
			c.carryOut(t, desire(monitored(octavia.MonitorTCP)))
			if c.lb.Name != name {
				t.Errorf("the load balancer is named %s", c.lb.Name)
			}
			for i, l := range c.listeners {
				if l.ID != before.listeners[i].ID || l.Name != before.listeners[i].Name {
					t.Errorf("listener %s (%s) is now %s (%s)", before.listeners[i].ID,
						before.listeners[i].Name, l.ID, l.Name)
				}
			}
			for i, pool := range c.pools {
				if pool.ID != before.pools[i].ID || pool.Name != before.pools[i].Name ||
					*pool.Monitor != *before.pools[i].Monitor {
					t.Errorf("pool %+v is now %+v", before.pools[i], pool)
				}
			}
			if removed := plan.Removal(shop(), c.observe(false),
				all()); kinds(removed)[len(removed.Steps)-1] != "DeleteLoadBalancer" {
				t.Errorf("the owner of a load balancer with an older name does not delete it:\n%s",
					removed)
			}
		})
	}
}

func TestChange_OneMemberOfMany_IsRequestedAlone(t *testing.T) {
	t.Parallel()
	begin := []string{"node-1", "node-2", "node-3"}
	forgotten := func(c *cloud) {
		for i := range c.pools[0].Members {
			c.pools[0].Members[i].ID = ""
		}
	}
	none := func(*cloud) {}
	for name, test := range map[string]struct {
		before func(*cloud)
		want   func(*desired.State)
		kind   string
	}{
		"a node more":          {none, nodes("node-1", "node-2", "node-3", "node-4"), "CreateMember"},
		"a node less":          {none, nodes("node-1", "node-3"), "DeleteMember"},
		"another name":         {func(c *cloud) { c.pools[0].Members[0].Name = "other" }, nodes(begin...), "UpdateMember"},
		"two nodes more":       {none, nodes("node-1", "node-2", "node-3", "node-4", "node-5"), "SetMembers"},
		"two nodes less":       {none, nodes("node-3"), "SetMembers"},
		"one for another":      {none, nodes("node-1", "node-2", "node-4"), "SetMembers"},
		"another subnet":       {func(c *cloud) { c.pools[0].Members[0].SubnetID = "elsewhere" }, nodes(begin...), "SetMembers"},
		"one more, no ids":     {forgotten, nodes("node-1", "node-2", "node-3", "node-4"), "CreateMember"},
		"one less, no ids":     {forgotten, nodes("node-1", "node-2"), "SetMembers"},
		"another name, no ids": {func(c *cloud) { forgotten(c); c.pools[0].Members[0].Name = "other" }, nodes(begin...), "SetMembers"},
	} {
		t.Run(name, func(t *testing.T) {
			c := made(t, desire(onePort, nodes(begin...)))
			test.before(c)
			want := desire(onePort, test.want)
			wantKinds(t, change(c, want), test.kind)
			c.carryOut(t, want)
		})
	}
}

// Monitors are named after the load balancer at their creation, and keep the name.
func TestMonitor_OfAnotherName_IsNotRenamed(t *testing.T) {
	t.Parallel()
	c := shared(t)
	name := c.lb.Name
	c.carryOut(t, visiting(name, monitored(octavia.MonitorTCP)))
	wantNothing(t, change(c, visiting(name, everyPort(func(i int, p *octavia.Port) {
		p.Pool.Monitor = monitor(i, "another", octavia.MonitorTCP)
	}))))
	wantNothing(t, change(c, visiting(name, everyPort(func(i int, p *octavia.Port) {
		p.Pool.Monitor = monitor(1-i, name, octavia.MonitorTCP)
	}))))
	p := change(c, visiting(name, onePort, everyPort(func(_ int, p *octavia.Port) {
		p.Pool.Monitor = monitor(0, "another", octavia.MonitorTCP)
		p.Pool.Monitor.Delay = 60
	})))
	update, ok := p.Steps[0].(plan.UpdateMonitor)
	if !ok || update.Monitor.Name == desired.MonitorName(0, "another") {
		t.Errorf("want a change of the monitor that keeps its name:\n%s", p)
	}
}

func TestChange_ProvidersOfOneKind_AreTheSame(t *testing.T) {
	t.Parallel()
	c := made(t, desire())
	for _, name := range []string{"amphora", "amphorav2", "octavia", ""} {
		p := change(c, desire(func(d *desired.State) { d.LoadBalancer.Provider = name }))
		if len(p.Steps)+len(p.Notices) > 0 {
			t.Errorf("%q is another provider than %s:\n%s", name, c.lb.Provider, p)
		}
	}
}

// A load balancer with other users is not recreated, and neither is one whose floating IP could not
// be recognized after an interruption.
func TestChange_RecreateWouldTakeFromOthers_IsRefused(t *testing.T) {
	t.Parallel()
	want := desire(recreate, func(d *desired.State) { d.LoadBalancer.FlavorID = "other" })
	for _, test := range []struct {
		name   string
		damage func(*cloud)
	}{
		{"another Service's tag", func(c *cloud) { c.lb.Tags = append(c.lb.Tags, neighbor().ServiceTag()) }},
		{"another Service's tag, of OCCM", func(c *cloud) { c.lb.Tags = append(c.lb.Tags, neighbor().LoadBalancerName()) }},
		{"a listener", func(c *cloud) {
			c.listeners = append(c.listeners,
				octavia.Listener{
					ID: "theirs", Protocol: octavia.TCP, Port: 22,
					Status: octavia.Active,
				})
		}},
		{"a pool", func(c *cloud) {
			c.pools = append(c.pools,
				octavia.Pool{ID: "theirs", Protocol: octavia.TCP, Status: octavia.Active})
		}},
		{"a floating IP", func(c *cloud) { c.ips[0].Tags, c.ips[0].Description = nil, "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := made(t, desire())
			test.damage(c)
			p := change(c, want)
			wantNothing(t, p)
			wantNotice(t, p, events.UsedByOthers, false)
			c.lb.Status = octavia.InError
			p = change(c, want)
			wantKinds(t, p, "FailoverLoadBalancer")
			wantNotice(t, p, events.UsedByOthers, true)
		})
	}
	t.Run("a requested floating IP", func(t *testing.T) {
		c := made(t, desire())
		c.ips[0].Tags, c.ips[0].Description = nil, ""
		address := c.ips[0].Address
		asked := desire(recreate, asking(address),
			func(d *desired.State) { d.LoadBalancer.FlavorID = "other" })
		p := change(c, asked)
		for n := range p.Steps {
			c := c.clone()
			if err := c.run(p, n); err != nil {
				t.Fatal(err)
			}
			c.carryOut(t, asked)
			if len(c.ips) != 1 || c.ips[0].Address != address ||
				c.ips[0].PortID != c.lb.VIP.PortID {
				t.Errorf("after %d steps the floating IP is lost: %v", n, c.ips)
			}
		}
	})
}

// The port of a node that is no longer a member loses the group, after the members have changed.
func TestNode_NoLongerAMember_ItsPortLosesTheGroup(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort, guarded, nodes("node-1", "node-2")))
	c.nodePorts = append(c.nodePorts,
		neutron.NodePort{
			ID: "port-second", ServerID: "server-node-1",
			Addresses:    []neutron.Address{{SubnetID: "subnet-storage", IP: "192.168.0.1"}},
			PortSecurity: true, SecurityGroups: []string{c.group.ID},
		})
	want := desire(onePort, guarded, nodes("node-1"))
	wantKinds(t, change(c, want), "DeleteMember", "RemoveGroup", "RemoveGroup")
	c.carryOut(t, want)
	for _, port := range c.nodePorts {
		if has := slices.Contains(port.SecurityGroups,
			c.group.ID); has != (port.ID == "port-node-1") {
			t.Errorf("port %s has the group: %v", port.ID, has)
		}
	}
}

// Until the members have changed, Octavia forwards clients to the old port.
func TestSecurityGroup_MembersGetAnotherPort_TheOldOneIsClosedAfterThem(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort, guarded))
	want := desire(onePort, everyPort(func(_ int, p *octavia.Port) {
		for i := range p.Pool.Members {
			p.Pool.Members[i].Port = 8080
		}
	}), guarded, func(d *desired.State) {
		d.SecurityGroup.Rules = []neutron.Rule{rule(8080, "10.0.0.0/24")}
	})
	p := change(c, want)
	wantKinds(t, p, "CreateRule", "SetMembers", "DeleteRule")
	if last, ok := p.Steps[2].(plan.DeleteRule); !ok || !last.AfterMembers {
		t.Errorf("the last step does not wait for the members: %+v", p.Steps[2])
	}
	c.carryOut(t, want)
}

// Clients that are not allowed any more are refused before anything else changes.
func TestSecurityGroup_OtherClientsOfAPort_TheRuleGoesAtOnce(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort, guarded))
	want := desire(onePort, nodes("node-1"), guarded, func(d *desired.State) {
		d.SecurityGroup.Rules = []neutron.Rule{rule(30080, "10.0.1.0/24")}
	})
	p := change(c, want)
	wantKinds(t, p, "CreateRule", "DeleteRule", "DeleteMember", "RemoveGroup")
	if rule, ok := p.Steps[1].(plan.DeleteRule); !ok || rule.AfterMembers {
		t.Errorf("the rule waits for the members: %+v", p.Steps[1])
	}
}

// A node without a provider ID, or without port security, does not block the other nodes.
func TestNode_WithoutServerOrPortSecurity_IsLeftOut(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.nodePorts[0].PortSecurity = false
	want := desire(guarded, nodes("node-1", "node-2", "node-3"),
		func(d *desired.State) { d.Backends[1].ServerID = "" })
	c.carryOut(t, want)
	if !slices.Contains(c.nodePorts[2].SecurityGroups, c.group.ID) {
		t.Error("the third node has no group")
	}
}

func TestChange_KnownInPart_OnlyWhatIsKnownIsCompared(t *testing.T) {
	t.Parallel()
	d := desire(onePort, monitored(octavia.MonitorTCP))
	c := made(t, d)
	c.pools[0].Members[0].Weight, c.pools[0].Monitor.Delay = 0, 60
	wantNothing(t, plan.Change(d, c.observe(true)))
	wantKinds(t, plan.Change(d, c.observe(false)), "UpdateMember", "UpdateMonitor")
	c.pools[0].Members[1].Name = "another"
	wantKinds(t, plan.Change(d, c.observe(true)), "UpdateMember")
	c.pools[0].Monitor.Type = octavia.MonitorHTTP
	wantKinds(t, plan.Change(d, c.observe(true)), "UpdateMember", "DeleteMonitor", "CreateMonitor")
}

// Tags of other owners stay.
func TestTags_OfOthers_AreKept(t *testing.T) {
	t.Parallel()
	c := made(t, desire(guarded))
	c.byOCCM()
	c.lb.Tags = append(c.lb.Tags, "team=shop")
	c.listeners[0].Tags = append(c.listeners[0].Tags, "team=web")
	c.ips[0].Tags, c.group.Tags = []string{"team=network"}, []string{"team=security"}
	c.carryOut(t, desire(guarded))
	for tag, tags := range map[string][]string{
		"team=shop": c.lb.Tags,
		"team=web":  c.listeners[0].Tags, "team=network": c.ips[0].Tags,
		"team=security": c.group.Tags,
	} {
		if !slices.Contains(tags, tag) {
			t.Errorf("%s is lost: %v", tag, tags)
		}
	}
	for _, tags := range [][]string{c.lb.Tags, c.listeners[0].Tags, c.listeners[1].Tags} {
		for _, tag := range shop().Tags() {
			if !slices.Contains(tags, tag) {
				t.Errorf("%s is missing: %v", tag, tags)
			}
		}
	}
}

// A cloud without tags gets none, and names identify the objects.
func TestChange_CloudWithoutTags_GoesByNames(t *testing.T) {
	t.Parallel()
	old := func(d *desired.State) {
		d.Features = desired.FeaturesOf("amphora", 4, false)
		d.LoadBalancer.Tags = nil
		everyPort(func(_ int, p *octavia.Port) {
			p.Listener.Tags, p.Listener.AllowedCIDRs = nil, nil
		})(d)
	}
	c := made(t, desire(old))
	wantKinds(t, change(c, desire(old, onePort)), "DeletePool", "DeleteListener")
	c.carryOut(t, desire(old, onePort, protocols(octavia.HTTP, octavia.HTTP)))
	for _, pool := range c.pools {
		if pool.Tags != nil {
			t.Errorf("a pool has tags: %v", pool.Tags)
		}
	}
}

func TestChange_AllowedCIDRs_AllEqualsEmpty(t *testing.T) {
	t.Parallel()
	six := octavia.VIP{Address: "2001:db8::5", SubnetID: "subnet-6"}
	for _, test := range []struct {
		is, want []string
		vips     []octavia.VIP
		same     bool
	}{
		{nil, []string{"0.0.0.0/0"}, nil, true},
		{[]string{"0.0.0.0/0"}, []string{"0.0.0.0/0"}, nil, true},
		{[]string{"192.0.2.0/24"}, []string{"0.0.0.0/0"}, nil, false},
		{nil, []string{"192.0.2.0/24"}, nil, false},
		{[]string{"0.0.0.0/0"}, []string{"0.0.0.0/0", "::/0"}, []octavia.VIP{six}, false},
		{nil, []string{"0.0.0.0/0", "::/0"}, []octavia.VIP{six}, true},
		{nil, []string{"0.0.0.0/0"}, []octavia.VIP{six}, false},
		{[]string{"192.0.2.0/24"}, nil, nil, true},
		{[]string{"b", "a"}, []string{"a", "b"}, nil, true},
	} {
		c := made(t, desire(onePort))
		c.lb.AdditionalVIPs, c.listeners[0].AllowedCIDRs = test.vips, test.is
		p := change(c, desire(onePort, everyPort(func(_ int, p *octavia.Port) {
			p.Listener.AllowedCIDRs = test.want
		})))
		if same := len(p.Steps) == 0; same != test.same {
			t.Errorf("%v -> %v with %v: %s", test.is, test.want, test.vips, p)
		}
	}
}

// A guest prevents the recreation that would add a second VIP. Octavia refuses CIDRs of a family
// without a VIP.
func TestChange_RecreationForASecondVIPIsPrevented_ClientsAreOfTheFamilyThatExists(t *testing.T) {
	t.Parallel()
	admit := func(cidrs ...string) func(*desired.State) {
		return everyPort(func(_ int, p *octavia.Port) { p.Listener.AllowedCIDRs = cidrs })
	}
	dual := func(d *desired.State) {
		recreate(d)
		d.LoadBalancer.AdditionalVIPs = []octavia.VIP{{SubnetID: "subnet-6"}}
	}
	third := func(d *desired.State) {
		d.Ports = append(slices.Clone(d.Ports), tcp(2, 8080, d.LoadBalancer.Name, "node-1"))
	}
	c := withGuest(t, neighbor().Tags())
	guest := slices.Clone(c.listener("listener-guest").AllowedCIDRs)
	for _, test := range []struct {
		admits, want []string
	}{
		{[]string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0"}},
		{[]string{"192.0.2.0/24", "2001:db8::/32"}, []string{"192.0.2.0/24"}},
	} {
		c := c.clone()
		want := desire(guarded, dual, third, admit(test.admits...))
		wantNotice(t, change(c, want), events.UsedByOthers, false)
		c.carryOut(t, want)
		if n := len(c.listeners); n != 4 {
			t.Errorf("%d listeners", n)
		}
		for _, l := range c.listeners {
			want := test.want
			if l.ID == "listener-guest" {
				want = guest
			}
			if !slices.Equal(l.AllowedCIDRs, want) {
				t.Errorf("%v: listener %s admits %v", test.admits, l.Name, l.AllowedCIDRs)
			}
		}
		// A load balancer that is known to be as desired is not updated.
		known := c.observe(false)
		made := plan.AsWanted(want, c.lb)
		for i := range made.Listeners {
			if !slices.Equal(made.Listeners[i].AllowedCIDRs, test.want) {
				t.Errorf("expected are %v", made.Listeners[i].AllowedCIDRs)
			}
		}
		known.Listeners, known.Pools = made.Listeners, made.Pools
		wantNothing(t, plan.Change(want, known))
	}
	p := change(c, desire(guarded, dual, third, admit("2001:db8::/32")))
	wantNothing(t, p)
	wantNotice(t, p, events.Unsupported, true)
}

func TestListener_OfAnotherOwner_IsNeverTouched(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		role plan.Role
		tags []string
		own  bool
	}{
		{"by-hand", plan.Owner, nil, false},
		{"by-hand", plan.Owner, []string{"team=web"}, false},
		{desired.ListenerName(7, shop().LoadBalancerName()), plan.Owner, nil, true},
		{desired.ListenerName(7, shop().LoadBalancerName()), plan.Guest, nil, false},
		{desired.ListenerName(7, shop().LoadBalancerName()), plan.Owner, []string{"team=web"}, false},
		{"listener_x_" + shop().LoadBalancerName(), plan.Owner, nil, false},
		{"listener_07_" + shop().LoadBalancerName(), plan.Owner, nil, false},
		{"anything", plan.Owner, []string{shop().LoadBalancerName()}, true},
		{"anything", plan.Guest, []string{shop().LoadBalancerName()}, true},
		{"anything", plan.Guest, shop().Tags(), true},
		{"anything", plan.Owner, neighbor().Tags(), false},
		{"anything", plan.Owner, []string{neighbor().LoadBalancerName()}, false},
		{"same names, another cluster", plan.Owner, stranger().Tags(), false},
		{"same name, another Service of it", plan.Owner, []string{shop().LoadBalancerName(), "fxccm-service=before"}, false},
	} {
		t.Run(fmt.Sprint(test.name, test.role, test.tags), func(t *testing.T) {
			c := made(t, desire(onePort))
			c.role = test.role
			c.listeners = append(c.listeners,
				octavia.Listener{
					ID: "theirs", Name: test.name, Tags: test.tags,
					Protocol: octavia.HTTP, Port: 443, PoolID: "their-pool",
					Status: octavia.Active,
				})
			c.pools = append(c.pools,
				octavia.Pool{
					ID: "their-pool", Name: "x", Protocol: octavia.HTTP,
					Algorithm: "ROUND_ROBIN", Status: octavia.Active,
				})
			p := change(c, desire(onePort))
			if touched := strings.Contains(p.String(), "theirs"); touched != test.own {
				t.Errorf("the listener counts as the Service's: %v\n%s", touched, p)
			}
			if test.own {
				return
			}
			p = change(c, desire())
			if strings.Contains(fmt.Sprint(p.Steps), "443") {
				t.Errorf("its port is used:\n%s", p)
			}
			wantNotice(t, p, events.PortInUse, true)
			if !strings.Contains(p.Notices[0].Message, "theirs") {
				t.Errorf("the notice does not name the obstacle: %s", p.Notices[0].Message)
			}
		})
	}
}

// The name of a security group has the UID of the Service, so that a group without tags is OCCM's
// for this Service, or one of a Neutron that keeps no tags.
func TestSecurityGroup_OfTheServicesName_IsTheServicesUnlessTagsSayOtherwise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tags []string
		own  bool
	}{
		"Neutron keeps no tags":  {nil, true},
		"no tags":                {[]string{}, true},
		"a user's tag":           {[]string{"team=security"}, true},
		"the Service's tags":     {shop().NetworkTags(), true},
		"another cluster's tags": {stranger().NetworkTags(), false},
		"another owner's mark":   {append(shop().NetworkTags(), "fxccm-owner=other"), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := made(t, desire(onePort, guarded))
			c.group.Tags = test.tags
			theirs := rule(22, "192.0.2.0/24")
			theirs.ID = "theirs"
			c.group.Rules = append(c.group.Rules, theirs)
			want := desire(onePort, guarded,
				func(d *desired.State) { d.Identity.Owner = "fleet/cluster" })
			p := change(c, want)
			if deletes := strings.Contains(p.String(), "delete rule theirs"); deletes != test.own {
				t.Errorf("the rule is deleted: %v\n%s", deletes, p)
			}
			remove := plan.Removal(want.Identity, c.observe(false), all())
			if deletes := slices.Contains(kinds(remove), "DeleteSecurityGroup"); deletes !=
				test.own {
				t.Errorf("the group is deleted with the Service: %v\n%s", deletes, remove)
			}
			if !test.own {
				if got := kinds(p); !slices.Equal(got, []string{"UpdateLoadBalancer"}) {
					t.Errorf("the group is changed: %q", got)
				}
				wantNotice(t, p, events.OfOtherCluster, true)
				return
			}
			c.carryOut(t, want)
			if got := c.group.Rules; len(got) != 1 || got[0].ID == theirs.ID {
				t.Errorf("the rules are %+v", got)
			}
		})
	}
}

// A pool of the Service has the members of the Service alone. The step is a line of the log.
func TestChange_MemberOfAnotherInThePoolOfTheService_IsDeleted(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort))
	c.pools[0].Members = append(c.pools[0].Members, octavia.Member{
		ID: "theirs", Name: "by-hand", Address: "10.0.9.9", Port: 80, Weight: 1,
		Status: octavia.Active,
	})
	p := change(c, desire(onePort))
	if len(p.Steps) != 1 || !strings.Contains(p.Steps[0].String(), "by-hand") {
		t.Errorf("the plan has not one step that names the member:\n%s", p)
	}
	c.carryOut(t, desire(onePort))
	if slices.ContainsFunc(c.pools[0].Members,
		func(m octavia.Member) bool { return m.ID == "theirs" }) {
		t.Errorf("the members are %+v", c.pools[0].Members)
	}
}

func TestChange_PoolOfAnotherOwnersListener_IsLeft(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort))
	pool := c.listeners[0].PoolID
	c.listeners = append(c.listeners,
		octavia.Listener{
			ID: "theirs", Protocol: octavia.TCP, Port: 22, PoolID: pool,
			ConnectionLimit: -1, Status: octavia.Active,
		})
	before := fmt.Sprintf("%+v", *c.pool(pool))
	want := desire(onePort, nodes("node-3"))
	wantKinds(t, change(c, want), "CreatePool", "CreateMember", "UpdateListener")
	c.carryOut(t, want)
	c.role = plan.Guest
	c.listeners[0].PoolID = pool
	p := plan.Removal(shop(), c.observe(false), all())
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatal(err)
	}
	if c.pool(pool) == nil || fmt.Sprintf("%+v", *c.pool(pool)) != before {
		t.Errorf("the pool was %s, and is now %v", before, c.pool(pool))
	}
}

// A load balancer that Octavia is changing is left alone.
func TestChange_Pending_HasNoPlan(t *testing.T) {
	t.Parallel()
	for _, status := range []octavia.Status{
		octavia.PendingCreate, octavia.PendingUpdate,
		octavia.PendingDelete,
	} {
		c := made(t, desire())
		c.lb.Status = status
		p := change(c, desire(onePort))
		wantNothing(t, p)
		wantNotice(t, p, events.Pending, true)
	}
}

func TestChange_Deleted_IsRecreated(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort))
	c.lb.Status, c.ips[0].PortID = octavia.Deleted, ""
	wantKinds(t, change(c, desire(onePort)), "CreateLoadBalancer", "AttachFloatingIP")
}

func TestChange_NeverServed_IsRecreatedWithoutPermission(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort, internal))
	c.lb.Status = octavia.InError
	is := c.observe(false)
	is.NeverServed = true
	p := plan.Change(desire(onePort, internal), is)
	wantKinds(t, p, "DeleteLoadBalancer", "CreateLoadBalancer")
	if address := p.Steps[1].(plan.CreateLoadBalancer).LoadBalancer.VIP.Address; address != "" {
		t.Errorf("the address %s, which may be why it failed, is requested again", address)
	}
}

// A pool is reused after its listener was deleted by hand, and so is a listener that lost its pool.
func TestChange_Leftovers_AreUsedOrDeleted(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort))
	c.listeners[0].PoolID = ""
	wantKinds(t, change(c, desire(onePort)), "UpdateListener")
	c.pools[0].Members = nil
	wantKinds(t, change(c, desire(onePort)), "SetMembers", "UpdateListener")
	wantKinds(t, change(c, desire(onePort, protocols(octavia.TCP, octavia.Proxy))), "DeletePool",
		"CreatePool", "SetMembers")
	c.pools[0].Name, c.pools[0].Tags = "by-hand", nil
	wantKinds(t, change(c, desire(onePort)), "CreatePool", "SetMembers")
}

// Equal inputs result in equal plans, and no plan changes its input.
func TestChange_IsPure(t *testing.T) {
	t.Parallel()
	c := made(t, desire(guarded))
	c.byOCCM()
	want := desire(guarded, nodes("node-3"), protocols(octavia.HTTP, octavia.HTTP), recreate,
		func(d *desired.State) { d.LoadBalancer.FlavorID = "x" })
	is := c.observe(false)
	before := fmt.Sprintf("%+v %+v", want, is)
	first := plan.Change(want, is).String()
	if second := plan.Change(want, is).String(); first != second {
		t.Errorf("equal inputs have different plans:\n%s\n%s", first, second)
	}
	if after := fmt.Sprintf("%+v %+v", want, is); before != after {
		t.Errorf("the input was\n%s\nand is\n%s", before, after)
	}
}

// OCCM's floating IP has no tag. It is tagged before it is detached, because otherwise the plan
// after an interruption would not find it.
func TestChange_RecreateOfOCCMs_FloatingIPIsNotForgotten(t *testing.T) {
	t.Parallel()
	begin := made(t, desire(onePort))
	begin.byOCCM()
	address := begin.ips[0].Address
	for _, more := range []func(*desired.State){recreate, internal} {
		want := desire(onePort, recreate, more,
			func(d *desired.State) { d.LoadBalancer.FlavorID = "other" })
		p := change(begin, want)
		for n := range p.Steps {
			c := begin.clone()
			if err := c.run(p, n); err != nil {
				t.Fatal(err)
			}
			c.carryOut(t, want)
			if want.FloatingIP != nil && (len(c.ips) != 1 || c.ips[0].Address != address) ||
				want.FloatingIP == nil && len(c.ips) > 0 {
				t.Errorf("after %d steps the floating IPs are %v", n, c.ips)
			}
		}
	}
}

// ovn-octavia-provider refuses a member outside the VIP's subnet whose subnet is not named.
func TestChange_OVN_EachNewMemberNamesItsSubnet(t *testing.T) {
	t.Parallel()
	for _, subnet := range []string{vipSubnet, "subnet-nodes"} {
		ovn := func(d *desired.State) {
			d.LoadBalancer.Provider = octavia.ProviderOVN
			d.Features = desired.FeaturesOf(octavia.ProviderOVN, 27, false)
			everyPort(func(_ int, p *octavia.Port) {
				for i := range p.Pool.Members {
					p.Pool.Members[i].SubnetID = subnet
				}
			})(d)
		}
		named := func(c *cloud) {
			t.Helper()
			for _, pool := range c.pools {
				for _, m := range pool.Members {
					if m.SubnetID != subnet {
						t.Errorf("member %s of %s has the subnet %q, want %s", m.Name, pool.Name,
							m.SubnetID, subnet)
					}
				}
			}
		}
		c := made(t, desire(nodes("node-1"), ovn))
		named(c)
		c.carryOut(t, desire(nodes("node-1", "node-2"), ovn))
		named(c)
		more := desire(nodes("node-1", "node-2"), func(d *desired.State) {
			d.Ports = append(d.Ports, tcp(2, 8080, d.LoadBalancer.Name, "node-1", "node-2"))
		}, ovn)
		c.carryOut(t, more)
		named(c)
		// A member that was created without the name of its subnet is in that of the VIP.
		c.pools[0].Members[0].SubnetID = ""
		if subnet == vipSubnet {
			wantNothing(t, change(c, more))
			continue
		}
		c.carryOut(t, more)
		named(c)
	}
}
