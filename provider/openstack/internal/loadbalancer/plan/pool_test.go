package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// pooled requests a floating IP of the pool.
func pooled(tag string) func(*desired.State) {
	return func(d *desired.State) {
		wanted := *d.FloatingIP
		wanted.PoolTag, wanted.NetworkID = tag, ""
		d.FloatingIP = &wanted
	}
}

// ofPool returns unused floating IPs with the tag.
func ofPool(tag string, count int) []neutron.FloatingIP {
	var ips []neutron.FloatingIP
	for i := range count {
		ips = append(ips, neutron.FloatingIP{
			ID: fmt.Sprintf("%s-%d", tag, i), Address: fmt.Sprintf("203.0.113.10%d", i),
			NetworkID: "network-outside", Tags: []string{tag}, Description: "of the operator",
		})
	}
	return ips
}

// wantReturned fails the test unless the floating IPs are those that the operator has made, unused.
func (c *cloud) wantReturned(t *testing.T, tag string, count int) {
	t.Helper()
	for _, want := range ofPool(tag, count) {
		switch ip := c.ip(want.ID); {
		case ip == nil:
			t.Errorf("floating IP %s was deleted", want.ID)
		case ip.PortID != "" || !slices.Equal(ip.Tags, want.Tags) ||
			ip.Description != want.Description:
			t.Errorf("floating IP %+v is not as the operator has made it", *ip)
		}
	}
}

// attached returns the floating IP at the load balancer.
func (c *cloud) attached(t *testing.T) neutron.FloatingIP {
	t.Helper()
	i := slices.IndexFunc(c.ips,
		func(ip neutron.FloatingIP) bool { return ip.PortID == c.lb.VIP.PortID })
	if i < 0 {
		t.Fatal("no floating IP is attached")
	}
	return c.ips[i]
}

func TestPool_ServiceUsesOne_ItIsMarkedStaysAndReturns(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.ips = ofPool("pool", 3)
	want := desire(pooled("pool"))
	c.carryOut(t, want)
	first := c.attached(t)
	marks := append([]string{"pool"}, append(shop().NetworkTags(), desired.PoolTag("pool"))...)
	if !slices.Equal(first.Tags, marks) {
		t.Errorf("the tags are %q, want %q", first.Tags, marks)
	}
	stays := func(when string, changes ...func(*desired.State)) {
		t.Helper()
		c.carryOut(t, desire(changes...))
		if now := c.attached(t); now.ID != first.ID {
			t.Errorf("%s: the floating IP is %s, was %s", when, now.ID, first.ID)
		}
	}
	stays("the Service is recreated", pooled("pool"), recreate,
		func(d *desired.State) { d.LoadBalancer.FlavorID = "other" })
	c.ip(first.ID).Tags = slices.DeleteFunc(slices.Clone(c.ip(first.ID).Tags),
		func(tag string) bool { return tag == "pool" })
	stays("the operator removes the tag", pooled("pool"))
	c.ip(first.ID).Tags = append([]string{"pool"}, c.ip(first.ID).Tags...)
	stays("no pool is named any more")
	for name, changes := range map[string][]func(*desired.State){
		"internal":         {internal},
		"another pool":     {pooled("other")},
		"another address":  {asking("203.0.113.200")},
		"another, by ID":   {naming("users", "")},
		"internal, kept":   {internal, keep},
		"recreated, other": {pooled("other"), recreate, func(d *desired.State) { d.LoadBalancer.FlavorID = "large" }},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.clone()
			c.ips = append(c.ips, neutron.FloatingIP{
				ID: "users", Address: "203.0.113.66", NetworkID: "network-outside",
			}, neutron.FloatingIP{
				ID: "other", Address: "203.0.113.67", NetworkID: "network-outside",
				Tags: []string{"other"},
			})
			c.carryOut(t, desire(changes...))
			c.wantReturned(t, "pool", 3)
		})
	}
	for name, options := range map[string]plan.RemovalOptions{
		"deleted": all(), "deleted, kept": {KeepFloatingIP: true, Cascade: true, Tags: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := removal(c.clone(), options)
			for n := range len(p.Steps) + 1 {
				// A deletion that ends after any step is continued.
				c := c.clone()
				if err := c.run(p, n); err != nil {
					t.Fatal(err)
				}
				rest := removal(c, options)
				if err := c.run(rest, len(rest.Steps)); err != nil {
					t.Fatal(err)
				}
				c.wantReturned(t, "pool", 3)
			}
		})
	}
}

// The operator adds the floating IP of a Service to a pool, and the Service then names the pool.
func TestPool_FloatingIPOfTheServiceJoinsThePool_ItIsMarkedAndNeverDeleted(t *testing.T) {
	t.Parallel()
	c := made(t, desire())
	own := c.attached(t).ID
	c.ip(own).Tags = append(slices.Clone(c.ip(own).Tags), "pool")
	large := func(d *desired.State) { d.LoadBalancer.FlavorID = "large" }
	for name, changes := range map[string][]func(*desired.State){
		"named": {pooled("pool")}, "named and recreated": {pooled("pool"), recreate, large},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.clone()
			c.carryOut(t, desire(changes...))
			if ip := c.attached(t); ip.ID != own ||
				!slices.Contains(ip.Tags, desired.PoolTag("pool")) {
				t.Errorf("the floating IP is %+v, want %s with the mark of the pool", ip, own)
			}
		})
	}
	c.carryOut(t, desire(pooled("pool")))
	p := removal(c, all())
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatal(err)
	}
	if ip := c.ip(own); ip == nil || ip.PortID != "" || !slices.Equal(ip.Tags, []string{"pool"}) ||
		ip.Description != "" {
		t.Errorf("after the deletion the floating IP is %+v, want it unused in the pool", ip)
	}
}

// A run that ends after any step leaves what the next plan continues with.
func TestPool_RunEndsAfterAnyStep_TheNextOneContinues(t *testing.T) {
	t.Parallel()
	c := made(t, desire())
	c.ips = append(c.ips, ofPool("pool", 3)...)
	want := desire(pooled("pool"))
	p := change(c, want)
	wantKinds(t, p, "DeleteFloatingIP", "TakeFloatingIP")
	for n := range len(p.Steps) + 1 {
		c := c.clone()
		if err := c.run(p, n); err != nil {
			t.Fatal(err)
		}
		c.carryOut(t, want)
		if ip := c.attached(t); !slices.Contains(ip.Tags, "pool") {
			t.Errorf("after %d steps the floating IP is %+v", n, ip)
		}
	}
	// It is attached, and not marked yet.
	c.ips = ofPool("pool", 3)
	c.ips[1].PortID = c.lb.VIP.PortID
	p = change(c, want)
	wantKinds(t, p, "TagFloatingIP")
	c.carryOut(t, want)
	if ip := c.attached(t); ip.ID != "pool-1" || !slices.Contains(ip.Tags, shop().ServiceTag()) {
		t.Errorf("the floating IP is %+v", ip)
	}
}

func TestPool_FloatingIPIsMovedByHand_AnotherOneIsTaken(t *testing.T) {
	t.Parallel()
	c := fresh()
	c.ips = ofPool("pool", 2)
	want := desire(pooled("pool"))
	c.carryOut(t, want)
	moved := c.attached(t).ID
	c.ip(moved).PortID = "elsewhere"
	p := change(c, want)
	wantKinds(t, p, "TagFloatingIP", "TakeFloatingIP")
	wantNotice(t, p, events.FloatingIPUnavailable, false)
	c.carryOut(t, want)
	if tags := c.ip(moved).Tags; !slices.Equal(tags, []string{"pool"}) {
		t.Errorf("the moved floating IP has the tags %q", tags)
	}
}

// Services of different names try the floating IPs in different orders, each always in the same.
func TestPool_OrderDependsOnTheService(t *testing.T) {
	t.Parallel()
	order := func(id desired.Identity) string {
		c := fresh()
		c.ips = ofPool("pool", 8)
		want := desire(pooled("pool"), func(d *desired.State) { d.Identity = id })
		var ids []string
		for _, step := range change(c, want).Steps {
			if take, ok := step.(plan.TakeFloatingIP); ok {
				for _, ip := range take.From {
					ids = append(ids, ip.ID)
				}
			}
		}
		return strings.Join(ids, " ")
	}
	again := shop()
	again.UID = "a later Service of the same name"
	if a, b := order(shop()), order(again); a != b || len(strings.Fields(a)) != 8 {
		t.Errorf("the order is %s, and that of a later Service of the same name %s", a, b)
	}
	if a, b := order(shop()), order(neighbor()); a == b {
		t.Errorf("two Services have the order %s", a)
	}
}

func TestPool_FloatingIPOfAnother_IsNeverTaken(t *testing.T) {
	t.Parallel()
	for name, ip := range marked("") {
		t.Run(name, func(t *testing.T) {
			c := made(t, desire(owned))
			ip.Tags = append(slices.Clone(ip.Tags), "pool")
			c.ips = append(c.ips, ip)
			p := change(c, desire(owned, pooled("pool")))
			wantNothing(t, p)
			wantNotice(t, p, events.FloatingIPUnavailable, true)
			// The mark appears after the plan.
			c.ips[len(c.ips)-1].Tags, c.ips[len(c.ips)-1].Description = []string{"pool"}, ""
			for _, step := range change(c, desire(owned, pooled("pool"))).Steps {
				if take, ok := step.(plan.TakeFloatingIP); ok && take.MayUse(ip) {
					t.Error("it is taken although it has a mark by then")
				}
			}
		})
	}
	for name, ip := range map[string]neutron.FloatingIP{
		"in use":            {ID: "x", PortID: "elsewhere", Tags: []string{"pool"}},
		"of another pool":   {ID: "x", Tags: []string{"pools"}},
		"taken by a former": {ID: "x", Tags: []string{"pool", desired.PoolTag("pool")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := made(t, desire())
			c.ips = append(c.ips, ip)
			p := change(c, desire(pooled("pool")))
			wantNothing(t, p)
			wantNotice(t, p, events.FloatingIPUnavailable, true)
			if !strings.Contains(p.String(), "release one, or create one and set the tag") {
				t.Errorf("the notice does not say what to do:\n%s", p)
			}
		})
	}
}

// The guests keep the address of a load balancer whose owner leaves. It is unused when the load
// balancer is deleted.
func TestPool_OwnerLeavesGuests_TheFloatingIPIsUnmarkedAndStays(t *testing.T) {
	t.Parallel()
	c := withGuest(t, neighbor().Tags())
	c.ips = ofPool("pool", 1)
	c.ips[0].PortID = c.lb.VIP.PortID
	c.ips[0].Tags = append([]string{"pool"},
		append(shop().NetworkTags(), desired.PoolTag("pool"))...)
	p := removal(c, all())
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatal(err)
	}
	ip := c.ips[0]
	if !isWhole(c) || ip.PortID != c.lb.VIP.PortID || !slices.Equal(ip.Tags, []string{"pool"}) {
		t.Errorf("the floating IP is %+v after\n%s", ip, p)
	}
}
