package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

func removal(c *cloud, o plan.RemovalOptions) plan.Plan {
	return plan.Removal(shop(), c.observe(false), o)
}

// withGuest returns shop's own load balancer, which another Service uses, too.
func withGuest(t *testing.T, tags []string) *cloud {
	t.Helper()
	c := made(t, desire(guarded))
	l := tcp(0, 9000, c.lb.Name).Listener
	l.ID, l.Tags, l.PoolID, l.Status = "listener-guest", tags, "pool-guest", octavia.Active
	c.listeners = append(c.listeners, l)
	c.pools = append(c.pools,
		octavia.Pool{
			ID: "pool-guest", Name: desired.PoolName(0, c.lb.Name),
			Protocol: octavia.TCP, Algorithm: "ROUND_ROBIN", Status: octavia.Active,
		})
	c.lb.Tags = append(c.lb.Tags, tags...)
	return c
}

func isWhole(c *cloud) bool {
	return c.lb != nil && c.listener("listener-guest") != nil && c.pool("pool-guest") != nil
}

// No part that may be another owner's is deleted with the load balancer, whatever is known of the
// cloud.
func TestRemoval_OthersOrUnknown_NeverCascades(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		tags    []string
		onlyOne bool
		known   bool
	}{
		{"a guest of fxccm", neighbor().Tags(), false, true},
		{"a guest of OCCM", []string{neighbor().LoadBalancerName()}, false, true},
		{"a guest of OCCM, the load balancer's tag is lost", []string{neighbor().LoadBalancerName()}, true, true},
		{"nothing is known of tags", neighbor().Tags(), false, false},
		{"nothing is known of tags, and it has no tags", nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := withGuest(t, test.tags)
			if test.onlyOne {
				c.lb.Tags = shop().Tags()
			}
			if test.tags == nil {
				c.listener("listener-guest").Name = "unclear"
			}
			for _, cascade := range []bool{true, false} {
				c := c.clone()
				p := removal(c, plan.RemovalOptions{Cascade: cascade, Tags: test.known})
				if err := c.run(p, len(p.Steps)); err != nil {
					t.Fatal(err)
				}
				if !isWhole(c) || len(c.ips) != 1 || c.ips[0].PortID == "" {
					t.Errorf("the guest has lost a part:\n%s", p)
				}
				if c.group != nil || len(c.listeners) != 1 || len(c.pools) != 1 {
					t.Errorf("a part of the Service remains:\n%s", p)
				}
			}
		})
	}
}

func TestRemoval_LoadBalancerIsGone_TheRestGoesToo(t *testing.T) {
	t.Parallel()
	for _, status := range []octavia.Status{"", octavia.Deleted, octavia.PendingDelete} {
		c := made(t, desire(guarded))
		if status == "" {
			c.lb, c.ips[0].PortID = nil, ""
		} else {
			c.lb.Status = status
		}
		p := removal(c, all())
		wantKinds(t, p, "DeleteFloatingIP", "RemoveGroup", "RemoveGroup", "DeleteSecurityGroup")
		if err := c.run(p, len(p.Steps)); err != nil {
			t.Fatal(err)
		}
		wantNothing(t, removal(c, all()))
	}
}

func TestRemoval_Guest_InterruptedAnywhere(t *testing.T) {
	t.Parallel()
	begin := shared(t)
	begin.carryOut(t, visiting(begin.lb.Name, guarded))
	for i := range begin.pools {
		// OCCM's pools have no tags.
		begin.pools[i].Tags = nil
	}
	p := removal(begin, all())
	for n := range p.Steps {
		c := begin.clone()
		if err := c.run(p, n); err != nil {
			t.Fatal(err)
		}
		rest := removal(c, all())
		if err := c.run(rest, len(rest.Steps)); err != nil {
			t.Fatal(err)
		}
		if len(c.listeners) != 1 || len(c.pools) != 1 || c.group != nil ||
			slices.Contains(c.lb.Tags, shop().ServiceTag()) {
			t.Errorf("after %d steps these remain: %+v", n, c)
		}
	}
}

// A floating IP is deleted only with the Service for which it was created.
func TestFloatingIP_IsDeletedOnlyWithItsService(t *testing.T) {
	t.Parallel()
	id := shop()
	moved := id
	moved.Name, moved.UID = "other", "other-uid"
	for _, test := range []struct {
		name        string
		tags        []string
		description string
		keep        bool
		deleted     bool
		tagged      bool
	}{
		{"its own", id.NetworkTags(), id.FloatingIPDescription(), false, true, false},
		{"its own, by tag alone", id.NetworkTags(), "", false, true, false},
		{"OCCM's for it", nil, id.FloatingIPDescription(), false, true, false},
		{"its own is kept", id.NetworkTags(), id.FloatingIPDescription(), true, false, false},
		{"OCCM's is kept", nil, id.FloatingIPDescription(), true, false, false},
		{"a user's", nil, "mine", false, false, false},
		{"one of OCCM's for another Service, that has kept it", nil, moved.FloatingIPDescription(), false, false, false},
		{"another Service's, that has kept it", moved.NetworkTags(), moved.FloatingIPDescription(), false, false, true},
		{"one of an earlier Service of the same name", []string{id.ClusterTag(), "fxccm-service=before"}, id.FloatingIPDescription(), false, false, true},
		{"one of another cluster of the same name", stranger().NetworkTags(), id.FloatingIPDescription(), false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := made(t, desire(onePort))
			c.ips[0].Tags, c.ips[0].Description = test.tags, test.description
			p := removal(c,
				plan.RemovalOptions{Cascade: true, Tags: true, KeepFloatingIP: test.keep})
			if err := c.run(p, len(p.Steps)); err != nil {
				t.Fatal(err)
			}
			if deleted := len(c.ips) == 0; deleted != test.deleted {
				t.Fatalf("deleted: %v\n%s", deleted, p)
			}
			if c.lb != nil {
				t.Errorf("the load balancer remains:\n%s", p)
			}
			if !test.deleted && (c.ips[0].PortID != "" || len(c.ips[0].Tags) > 0 != test.tagged) {
				t.Errorf("the floating IP is %+v", c.ips[0])
			}
		})
	}
}

// A Service of the same name has kept the floating IP under OCCM, whose description remains.
func TestRemoval_FloatingIPOlderThanTheService_StaysUnlessTagged(t *testing.T) {
	t.Parallel()
	id := shop()
	id.Created = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) string { return id.Created.Add(-ago).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		created string
		tags    []string
		stays   bool
	}{
		"older":                       {at(time.Hour), nil, true},
		"older, with fxccm's tags":    {at(time.Hour), id.NetworkTags(), false},
		"younger":                     {at(-time.Second), nil, false},
		"of an unknown age":           {"", nil, false},
		"younger but for clock skews": {at(30 * time.Second), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := desire(onePort, asking("203.0.113.1"))
			want.Identity = id
			c := made(t, desire(onePort, internal))
			c.ips = []neutron.FloatingIP{{
				ID: "kept", Address: "203.0.113.1", Tags: test.tags, CreatedAt: test.created,
				Description: id.FloatingIPDescription(), PortID: c.lb.VIP.PortID,
			}}
			c.carryOut(t, want)
			if c.ips[0].PortID == "" {
				t.Fatalf("the requested floating IP is detached: %+v", c.ips[0])
			}
			p := plan.Removal(id, c.observe(false), all())
			if err := c.run(p, len(p.Steps)); err != nil {
				t.Fatal(err)
			}
			if stays := len(c.ips) > 0; stays != test.stays {
				t.Errorf("it stays: %t, want %t\n%s", stays, test.stays, p)
			}
		})
	}
}

// OCCM of another cluster of the same name uses the floating IP. The Service requests it.
func TestRemoval_FloatingIPAtAnotherPortHasOnlyTheDescription_StaysAsItIs(t *testing.T) {
	t.Parallel()
	for _, isServed := range []bool{true, false} {
		theirs := neutron.FloatingIP{
			ID: "theirs", Address: "203.0.113.1", PortID: "their-port",
			Description: shop().FloatingIPDescription(),
		}
		is := plan.Observed{Role: plan.Owner}
		if isServed {
			is = made(t, desire(onePort, internal)).observe(false)
		}
		is.FloatingIPs = []neutron.FloatingIP{theirs}
		change := plan.Change(desire(onePort, asking(theirs.Address)), is)
		for _, p := range []plan.Plan{change, plan.Removal(shop(), is, all())} {
			if slices.ContainsFunc(p.Steps, func(step plan.Step) bool {
				return strings.Contains(plan.Text(step), theirs.Address)
			}) {
				t.Errorf("the load balancer exists: %t; a step changes the floating IP:\n%s",
					isServed, p)
			}
		}
	}
}

// A floating IP that is kept has no owner, whatever its marks were. So any Service may request it.
func TestRemoval_FloatingIPIsKept_NoMarkIsLeft(t *testing.T) {
	t.Parallel()
	renamed := shop()
	renamed.ClusterName = "earlier"
	for name, test := range map[string]struct {
		cloud func(*testing.T) *cloud
		of    desired.Identity
		mark  func(*neutron.FloatingIP)
	}{
		"usual": {of: shop()},
		"the cluster had another name": {
			of:   shop(),
			mark: func(f *neutron.FloatingIP) { f.Description = renamed.FloatingIPDescription() },
		},
		"the cluster has left its fleet": {
			of:   shop(),
			mark: func(f *neutron.FloatingIP) { f.Tags = append(f.Tags, "fxccm-owner=fleet") },
		},
		"the owner has left, and its last guest keeps it": {
			cloud: func(t *testing.T) *cloud {
				c := withGuest(t, neighbor().Tags())
				p := removal(c, all())
				if err := c.run(p, len(p.Steps)); err != nil {
					t.Fatal(err)
				}
				c.role = plan.Guest
				return c
			},
			of: neighbor(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.cloud == nil {
				test.cloud = func(t *testing.T) *cloud { return made(t, desire(onePort)) }
			}
			c := test.cloud(t)
			c.ips[0].Tags = append(c.ips[0].Tags, "of another tool")
			if test.mark != nil {
				test.mark(&c.ips[0])
			}
			o := all()
			o.KeepFloatingIP = true
			p := plan.Removal(test.of, c.observe(false), o)
			if err := c.run(p, len(p.Steps)); err != nil {
				t.Fatal(err)
			}
			if len(c.ips) != 1 || c.ips[0].PortID != "" || c.ips[0].Description != "" ||
				!slices.Equal(c.ips[0].Tags, []string{"of another tool"}) {
				t.Errorf("the floating IPs are %+v, want one without marks:\n%s", c.ips, p)
			}
		})
	}
}

func TestRemoval_FloatingIPLeadsElsewhere_IsDisowned(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort))
	c.ips[0].PortID = "elsewhere"
	p := removal(c, all())
	wantKinds(t, p, "TagFloatingIP", "DeleteLoadBalancer")
	wantNotice(t, p, events.FloatingIPUnavailable, false)
}

func TestRemoval_OwnerLeavesGuests_FloatingIPStays(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		c := withGuest(t, neighbor().Tags())
		o := all()
		o.KeepFloatingIP = kept
		p := removal(c, o)
		if err := c.run(p, len(p.Steps)); err != nil {
			t.Fatal(err)
		}
		if c.ips[0].PortID != c.lb.VIP.PortID || len(c.ips[0].Tags) == 0 != kept {
			t.Errorf("kept %v: %+v", kept, c.ips[0])
		}
		// The last guest deletes everything except a kept floating IP.
		c.role = plan.Guest
		last := plan.Removal(neighbor(), c.observe(false), all())
		if err := c.run(last, len(last.Steps)); err != nil {
			t.Fatal(err)
		}
		if c.lb != nil || len(c.ips) > 0 != kept {
			t.Errorf("kept %v: %v and %v remain:\n%s", kept, c.lb, c.ips, last)
		}
	}
}

// A load balancer that a user has created is never deleted, and neither is one whose owner may
// still use it.
func TestRemoval_LastGuest_DeletesOnlyUnownedParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*cloud)
	}{
		{"a user's", func(c *cloud) { c.lb.Name, c.lb.Tags = "mine", shop().Tags() }},
		{"its owner is there", func(*cloud) {}},
		{"a listener is left", func(c *cloud) { c.lb.Tags = shop().Tags() }},
		{"it was never this Service's", func(c *cloud) { c.lb.Tags, c.listeners, c.pools = nil, nil, nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := shared(t)
			c.carryOut(t, visiting(c.lb.Name, onePort))
			test.change(c)
			p := removal(c, all())
			if slices.Contains(kinds(p), "DeleteLoadBalancer") {
				t.Errorf("the load balancer is deleted:\n%s", p)
			}
		})
	}
}

// In a load balancer in ERROR no part can be deleted: a guest waits, and its objects outside are
// deleted at once.
func TestRemoval_GuestOfLoadBalancerInError_Waits(t *testing.T) {
	t.Parallel()
	c := shared(t)
	c.carryOut(t, visiting(c.lb.Name, guarded))
	c.lb.Status = octavia.InError
	p := removal(c, all())
	wantKinds(t, p, "RemoveGroup", "RemoveGroup", "DeleteSecurityGroup")
	wantNotice(t, p, events.InError, true)
	if text := p.String(); !strings.Contains(text, ": Octavia: load balancer "+c.lb.ID) ||
		!strings.Contains(text, "; fail it over in Octavia") {
		t.Errorf("the notice has no service, or not what to do:\n%s", text)
	}
}
