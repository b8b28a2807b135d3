package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func tagOf(name string) string {
	return desired.ShareTag(settings.ShareKey{Name: name, Request: "request"})
}

// sharedAs lets others join the load balancer by the names.
func sharedAs(names ...string) func(*desired.State) {
	return func(d *desired.State) {
		for _, name := range names {
			d.LoadBalancer.Tags = append(d.LoadBalancer.Tags, tagOf(name))
		}
	}
}

func TestChange_OwnerSharesByName_TagsFollowWhileItIsAlone(t *testing.T) {
	t.Parallel()
	wantTags := func(c *cloud, names ...string) {
		t.Helper()
		want := []string{}
		for _, name := range names {
			want = append(want, tagOf(name))
		}
		if got := desired.ShareTags(c.lb.Tags); !slices.Equal(got, want) {
			t.Errorf("the tags are %q, want %q", got, want)
		}
	}
	c := made(t, desire(sharedAs("a", "wide")))
	wantTags(c, "a", "wide")
	for _, names := range [][]string{{"a"}, {"b"}, {}, {"a", "wide"}} {
		p := change(c, desire(sharedAs(names...)))
		wantKinds(t, p, "UpdateLoadBalancer")
		c.carryOut(t, desire(sharedAs(names...)))
		wantTags(c, names...)
	}
	// It is not what the Service requests.
	c.carryOut(t, desire(sharedAs("a"), func(d *desired.State) {
		d.LoadBalancer.FlavorID = "another"
	}))
	wantTags(c)
}

func TestChange_OthersUseTheLoadBalancer_TagsOfTheNameStay(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(*cloud){
		"a Service": func(c *cloud) { c.lb.Tags = append(c.lb.Tags, neighbor().Tags()...) },
		"another cluster": func(c *cloud) {
			c.lb.Tags = append(c.lb.Tags, stranger().ClusterTag(), stranger().GuestTag())
		},
		"a user": func(c *cloud) {
			c.listeners = append(c.listeners, octavia.Listener{
				ID: "listener-user", Name: "mine", Protocol: octavia.TCP, Port: 22,
				Status: octavia.Active,
			})
		},
	} {
		c := made(t, desire(sharedAs("a")))
		with(c)
		for _, names := range [][]string{{"a"}, {"b"}, {}} {
			if p := change(c, desire(sharedAs(names...))); len(p.Steps) > 0 {
				t.Errorf("%s uses it, and the name is %q:\n%s", name, names, p)
			}
		}
	}
}

// A guest does not decide by which name others find the load balancer.
func TestChange_GuestSharesByName_AddsNoTag(t *testing.T) {
	t.Parallel()
	c := shared(t)
	c.carryOut(t, visiting(c.lb.Name, sharedAs("a")))
	if got := desired.ShareTags(c.lb.Tags); len(got) > 0 {
		t.Errorf("the tags are %q", got)
	}
}

// The others keep the address. The floating IP must not stay that of the Service, which gets
// another one with its next load balancer.
func TestRemoval_OwnerMoves_OthersKeepTheFloatingIPAndTheLastDeletesIt(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		ownerMoves(t, keeps)
	}
}

// ownerMoves checks the removal of an owner that requests to keep its floating IP, or does not.
func ownerMoves(t *testing.T, keeps bool) {
	t.Helper()
	c := withGuest(t, neighbor().Tags())
	c.lb.Tags = append(c.lb.Tags, tagOf("a"))
	before := c.ips[0]
	o := all()
	o.Moves, o.KeepFloatingIP = true, keeps
	p := removal(c, o)
	if text := p.String(); strings.Contains(text, "is gone") {
		t.Errorf("the plan of a Service that stays is\n%s", text)
	}
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatal(err)
	}
	ip := c.ips[0]
	if ip.PortID != before.PortID || slices.Contains(ip.Tags, shop().ServiceTag()) ||
		!slices.Contains(ip.Tags, shop().ClusterTag()) || ip.Description != before.Description {
		t.Errorf("keeps %t: the floating IP is %+v, before %+v", keeps, ip, before)
	}
	if slices.Contains(c.lb.Tags, shop().ServiceTag()) || !slices.Contains(c.lb.Tags, tagOf("a")) {
		t.Errorf("the tags are %q", c.lb.Tags)
	}
	c.role = plan.Guest
	last := plan.Removal(neighbor(), c.observe(false), all())
	if err := c.run(last, len(last.Steps)); err != nil {
		t.Fatal(err)
	}
	if c.lb != nil || len(c.ips) > 0 {
		t.Errorf("keeps %t: %v and %v remain:\n%s", keeps, c.lb, c.ips, last)
	}
}
