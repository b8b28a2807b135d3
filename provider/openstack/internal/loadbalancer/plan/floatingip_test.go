package plan_test

import (
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

func TestChange_FloatingIP(t *testing.T) {
	id := shop()
	const there = "port-vip-lb-1"
	own := func(port string) balancer.FloatingIP {
		return balancer.FloatingIP{
			ID: "own", Address: "203.0.113.1", PortID: port,
			Tags: id.NetworkTags(), Description: id.FloatingIPDescription(),
			NetworkID: "network-outside",
		}
	}
	users := func(port string) balancer.FloatingIP {
		return balancer.FloatingIP{
			ID: "user", Address: "203.0.113.2", PortID: port,
			NetworkID: "network-outside",
		}
	}
	occm := own(there)
	occm.Tags = nil
	theirs := own(there)
	theirs.Tags = neighbour().NetworkTags()
	nowhere := func(d *balancer.Desired) {
		wanted := *d.FloatingIP
		wanted.NetworkID = ""
		d.FloatingIP = &wanted
	}
	guest := func(d *balancer.Desired) { d.FloatingIP = nil }
	for _, test := range []struct {
		name string
		role balancer.Role
		is   []balancer.FloatingIP
		want []func(*balancer.Desired)
		then []string
	}{
		{"none", balancer.Owner, nil, nil, []string{"CreateFloatingIP"}},
		{"its own", balancer.Owner, []balancer.FloatingIP{own(there)}, nil, nil},
		{"a user's stays", balancer.Owner, []balancer.FloatingIP{users(there)}, nil, nil},
		{"OCCM's is marked", balancer.Owner, []balancer.FloatingIP{occm}, nil, []string{"TagFloatingIP"}},
		{"another Service's is not marked", balancer.Owner, []balancer.FloatingIP{theirs}, nil, nil},
		{"its own leads nowhere", balancer.Owner, []balancer.FloatingIP{own("")}, nil, []string{"AttachFloatingIP"}},
		{"one too many", balancer.Owner, []balancer.FloatingIP{users(there), own("")}, nil, []string{"DeleteFloatingIP"}},
		{"one too many is kept", balancer.Owner, []balancer.FloatingIP{users(there), own("")}, []func(*balancer.Desired){keep}, nil},
		{"no network to make one in", balancer.Owner, nil, []func(*balancer.Desired){nowhere}, nil},
		{"no network, but one is there", balancer.Owner, []balancer.FloatingIP{own("")}, []func(*balancer.Desired){nowhere}, []string{"AttachFloatingIP"}},

		{"internal", balancer.Owner, []balancer.FloatingIP{own(there)}, []func(*balancer.Desired){internal}, []string{"DeleteFloatingIP"}},
		{"internal, kept", balancer.Owner, []balancer.FloatingIP{own(there)}, []func(*balancer.Desired){internal, keep}, []string{"DetachFloatingIP"}},
		{"internal, a user's", balancer.Owner, []balancer.FloatingIP{users(there)}, []func(*balancer.Desired){internal}, []string{"DetachFloatingIP"}},
		{"internal, another Service's", balancer.Owner, []balancer.FloatingIP{theirs}, []func(*balancer.Desired){internal}, []string{"DetachFloatingIP"}},
		{"internal, leads nowhere", balancer.Owner, []balancer.FloatingIP{own("")}, []func(*balancer.Desired){internal}, []string{"DeleteFloatingIP"}},
		{"internal, leads nowhere, kept", balancer.Owner, []balancer.FloatingIP{own("")}, []func(*balancer.Desired){internal, keep}, nil},
		{"internal, leads elsewhere", balancer.Owner, []balancer.FloatingIP{own("elsewhere")}, []func(*balancer.Desired){internal}, nil},

		{"asked for, new", balancer.Owner, nil, []func(*balancer.Desired){asking("203.0.113.2")}, []string{"CreateFloatingIP"}},
		{
			"asked for, new, in place of its own", balancer.Owner,
			[]balancer.FloatingIP{own(there)},
			[]func(*balancer.Desired){asking("203.0.113.2")},
			[]string{"CreateFloatingIP", "DeleteFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, new, the network is that of its own", balancer.Owner,
			[]balancer.FloatingIP{own(there)},
			[]func(*balancer.Desired){nowhere, asking("203.0.113.2")},
			[]string{"CreateFloatingIP", "DeleteFloatingIP", "AttachFloatingIP"},
		},
		{"asked for, there", balancer.Owner, []balancer.FloatingIP{users(there)}, []func(*balancer.Desired){asking("203.0.113.2")}, nil},
		{"asked for, free", balancer.Owner, []balancer.FloatingIP{users("")}, []func(*balancer.Desired){asking("203.0.113.2")}, []string{"AttachFloatingIP"}},
		{
			"asked for, free, in place of its own", balancer.Owner,
			[]balancer.FloatingIP{own(there), users("")},
			[]func(*balancer.Desired){asking("203.0.113.2")},
			[]string{"DeleteFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, free, its own is kept", balancer.Owner,
			[]balancer.FloatingIP{own(there), users("")},
			[]func(*balancer.Desired){asking("203.0.113.2"), keep},
			[]string{"DetachFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, its own, in place of a user's", balancer.Owner,
			[]balancer.FloatingIP{users(there), own("")},
			[]func(*balancer.Desired){asking("203.0.113.1")},
			[]string{"DetachFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, there, and its own leads nowhere", balancer.Owner,
			[]balancer.FloatingIP{users(there), own("")},
			[]func(*balancer.Desired){asking("203.0.113.2")},
			[]string{"DeleteFloatingIP"},
		},

		{"a guest touches none", balancer.Guest, []balancer.FloatingIP{users(there), theirs}, []func(*balancer.Desired){guest}, nil},
		{
			"a guest clears away what it had", balancer.Guest,
			[]balancer.FloatingIP{users(there), own("")},
			[]func(*balancer.Desired){guest},
			[]string{"DeleteFloatingIP"},
		},
		{"a guest keeps what it had", balancer.Guest, []balancer.FloatingIP{own("")}, []func(*balancer.Desired){guest, keep}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := made(t, desire(internal))
			c.role, c.ips = test.role, test.is
			p := change(c, desire(test.want...))
			wantKinds(t, p, test.then...)
			if len(p.Notices) > 0 {
				t.Errorf("unexpected:\n%s", p)
			}
			if err := c.run(p, len(p.Steps)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestChange_FloatingIPUnavailable_IsReportedAndTheOldOneStays(t *testing.T) {
	nowhere := func(d *balancer.Desired) {
		wanted := *d.FloatingIP
		wanted.NetworkID = ""
		d.FloatingIP = &wanted
	}
	t.Run("it leads elsewhere", func(t *testing.T) {
		c := made(t, desire())
		c.ips = append(c.ips,
			balancer.FloatingIP{ID: "user", Address: "203.0.113.99", PortID: "elsewhere"})
		p := change(c, desire(asking("203.0.113.99")))
		wantNothing(t, p)
		wantNotice(t, p, plan.ReasonFloatingIP, true)
	})
	t.Run("there is no network to make it in", func(t *testing.T) {
		c := made(t, desire(internal))
		p := change(c, desire(nowhere, asking("203.0.113.99")))
		wantNothing(t, p)
		wantNotice(t, p, plan.ReasonFloatingIP, true)
	})
}

// A new address is there before the old one is given up; whatever is interrupted, nothing is left
// over.
func TestChange_AnotherAddress_InterruptedAnywhere(t *testing.T) {
	begin, want := made(t, desire(onePort)), desire(onePort, asking("203.0.113.99"))
	p := change(begin, want)
	for n := range p.Steps {
		c := begin.clone()
		if err := c.run(p, n); err != nil {
			t.Fatal(err)
		}
		c.carryOut(t, want)
		if len(c.ips) != 1 || c.ips[0].Address != "203.0.113.99" {
			t.Errorf("after %d steps: %v", n, c.ips)
		}
	}
}

func TestChange_FloatingIPLeadsElsewhere_IsDisownedAndReplaced(t *testing.T) {
	c := made(t, desire())
	c.ips[0].PortID = "elsewhere"
	moved := c.ips[0].ID
	// Where another would be made is not looked up while there is one.
	p := change(c, desire(func(d *balancer.Desired) {
		d.FloatingIP.NetworkID, d.FloatingIP.Present = "", true
	}))
	wantKinds(t, p, "TagFloatingIP")
	wantNotice(t, p, plan.ReasonFloatingIP, true)
	p = change(c, desire())
	wantKinds(t, p, "TagFloatingIP", "CreateFloatingIP")
	wantNotice(t, p, plan.ReasonFloatingIP, false)
	c.carryOut(t, desire())
	p = removal(c, all())
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatal(err)
	}
	if len(c.ips) != 1 || c.ips[0].ID != moved || c.ips[0].PortID != "elsewhere" {
		t.Errorf("left are %v", c.ips)
	}
}

// The port that a user has made for the VIP may have kept its floating IP when the load balancer
// was deleted by hand.
func TestChange_UsersPortHasTheFloatingIP_ItStays(t *testing.T) {
	at := func(d *balancer.Desired) { d.LoadBalancer.VIP = balancer.VIP{PortID: "port-user"} }
	c := made(t, desire(onePort, at))
	c.lb, c.listeners, c.pools = nil, nil, nil
	wantKinds(t, change(c, desire(onePort, at)), "CreateLoadBalancer")
	wantKinds(t, change(c, desire(onePort, at, internal)), "CreateLoadBalancer", "DeleteFloatingIP")
}
