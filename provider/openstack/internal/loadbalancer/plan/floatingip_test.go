package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

func TestChange_FloatingIP(t *testing.T) {
	t.Parallel()
	id := shop()
	const there = "port-vip-lb-1"
	own := func(port string) neutron.FloatingIP {
		return neutron.FloatingIP{
			ID: "own", Address: "203.0.113.1", PortID: port,
			Tags: id.NetworkTags(), Description: id.FloatingIPDescription(),
			NetworkID: "network-outside",
		}
	}
	users := func(port string) neutron.FloatingIP {
		return neutron.FloatingIP{
			ID: "user", Address: "203.0.113.2", PortID: port,
			NetworkID: "network-outside",
		}
	}
	occm := own(there)
	occm.Tags = []string{}
	untagged := own(there)
	untagged.Tags = nil
	theirs := own(there)
	theirs.Tags, theirs.Description = neighbor().NetworkTags(), neighbor().FloatingIPDescription()
	earlier := own(there)
	earlier.Tags = []string{id.ClusterTag(), "fxccm-service=before"}
	nowhere := func(d *desired.State) {
		wanted := *d.FloatingIP
		wanted.NetworkID = ""
		d.FloatingIP = &wanted
	}
	guest := func(d *desired.State) { d.FloatingIP = nil }
	for _, test := range []struct {
		name string
		role plan.Role
		is   []neutron.FloatingIP
		want []func(*desired.State)
		then []string
	}{
		{"none", plan.Owner, nil, nil, []string{"CreateFloatingIP"}},
		{"its own", plan.Owner, []neutron.FloatingIP{own(there)}, nil, nil},
		{"a user's stays", plan.Owner, []neutron.FloatingIP{users(there)}, nil, nil},
		{"OCCM's is marked", plan.Owner, []neutron.FloatingIP{occm}, nil, []string{"TagFloatingIP"}},
		{"its own, without tags in Neutron", plan.Owner, []neutron.FloatingIP{untagged}, nil, nil},
		{"another Service's is not marked", plan.Owner, []neutron.FloatingIP{theirs}, nil, nil},
		{"an earlier Service's of the same name is marked", plan.Owner, []neutron.FloatingIP{earlier}, nil, []string{"TagFloatingIP"}},
		{"its own leads nowhere", plan.Owner, []neutron.FloatingIP{own("")}, nil, []string{"AttachFloatingIP"}},
		{"one too many", plan.Owner, []neutron.FloatingIP{users(there), own("")}, nil, []string{"DeleteFloatingIP"}},
		{"one too many is kept", plan.Owner, []neutron.FloatingIP{users(there), own("")}, []func(*desired.State){keep}, []string{"TagFloatingIP"}},
		{"no network to make one in", plan.Owner, nil, []func(*desired.State){nowhere}, nil},
		{"no network, but one is there", plan.Owner, []neutron.FloatingIP{own("")}, []func(*desired.State){nowhere}, []string{"AttachFloatingIP"}},

		{"internal", plan.Owner, []neutron.FloatingIP{own(there)}, []func(*desired.State){internal}, []string{"DeleteFloatingIP"}},
		{"internal, kept", plan.Owner, []neutron.FloatingIP{own(there)}, []func(*desired.State){internal, keep}, []string{"DetachFloatingIP", "TagFloatingIP"}},
		{"internal, a user's", plan.Owner, []neutron.FloatingIP{users(there)}, []func(*desired.State){internal}, []string{"DetachFloatingIP"}},
		{"internal, leads nowhere", plan.Owner, []neutron.FloatingIP{own("")}, []func(*desired.State){internal}, []string{"DeleteFloatingIP"}},
		{"internal, leads nowhere, kept", plan.Owner, []neutron.FloatingIP{own("")}, []func(*desired.State){internal, keep}, []string{"TagFloatingIP"}},
		{"internal, leads elsewhere", plan.Owner, []neutron.FloatingIP{own("elsewhere")}, []func(*desired.State){internal}, nil},

		{"asked for, new", plan.Owner, nil, []func(*desired.State){asking("203.0.113.2")}, []string{"CreateFloatingIP"}},
		{
			"asked for, new, in place of its own", plan.Owner,
			[]neutron.FloatingIP{own(there)},
			[]func(*desired.State){asking("203.0.113.2")},
			[]string{"CreateFloatingIP", "DeleteFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, new, the network is that of its own", plan.Owner,
			[]neutron.FloatingIP{own(there)},
			[]func(*desired.State){nowhere, asking("203.0.113.2")},
			[]string{"CreateFloatingIP", "DeleteFloatingIP", "AttachFloatingIP"},
		},
		{"asked for, there", plan.Owner, []neutron.FloatingIP{users(there)}, []func(*desired.State){asking("203.0.113.2")}, nil},
		{"asked for, free", plan.Owner, []neutron.FloatingIP{users("")}, []func(*desired.State){asking("203.0.113.2")}, []string{"AttachFloatingIP"}},
		{
			"asked for, free, in place of its own", plan.Owner,
			[]neutron.FloatingIP{own(there), users("")},
			[]func(*desired.State){asking("203.0.113.2")},
			[]string{"DeleteFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, free, its own is kept", plan.Owner,
			[]neutron.FloatingIP{own(there), users("")},
			[]func(*desired.State){asking("203.0.113.2"), keep},
			[]string{"DetachFloatingIP", "TagFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, its own, in place of a user's", plan.Owner,
			[]neutron.FloatingIP{users(there), own("")},
			[]func(*desired.State){asking("203.0.113.1")},
			[]string{"DetachFloatingIP", "AttachFloatingIP"},
		},
		{
			"asked for, there, and its own leads nowhere", plan.Owner,
			[]neutron.FloatingIP{users(there), own("")},
			[]func(*desired.State){asking("203.0.113.2")},
			[]string{"DeleteFloatingIP"},
		},

		{"named, there", plan.Owner, []neutron.FloatingIP{users(there)}, []func(*desired.State){naming("user", "")}, nil},
		{"named, free", plan.Owner, []neutron.FloatingIP{users("")}, []func(*desired.State){naming("user", "203.0.113.2")}, []string{"AttachFloatingIP"}},
		{
			"named, free, in place of its own", plan.Owner,
			[]neutron.FloatingIP{own(there), users("")},
			[]func(*desired.State){naming("user", "")},
			[]string{"DeleteFloatingIP", "AttachFloatingIP"},
		},
		{
			"named, free, and another network has the address", plan.Owner,
			[]neutron.FloatingIP{{ID: "same", Address: "203.0.113.2"}, users("")},
			[]func(*desired.State){naming("user", "203.0.113.2")},
			[]string{"AttachFloatingIP"},
		},

		{"a guest touches none", plan.Guest, []neutron.FloatingIP{users(there), theirs}, []func(*desired.State){guest}, nil},
		{
			"a guest clears away what it had", plan.Guest,
			[]neutron.FloatingIP{users(there), own("")},
			[]func(*desired.State){guest},
			[]string{"DeleteFloatingIP"},
		},
		{"a guest keeps what it had", plan.Guest, []neutron.FloatingIP{own("")}, []func(*desired.State){guest, keep}, []string{"TagFloatingIP"}},
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

// naming requests a floating IP by its ID, and perhaps by an address.
func naming(id, address string) func(*desired.State) {
	return func(d *desired.State) {
		wanted := *d.FloatingIP
		wanted.ID, wanted.Address, wanted.NetworkID = id, address, ""
		wanted.Source = "spec.loadBalancerIP"
		d.FloatingIP = &wanted
	}
}

func TestChange_NamedFloatingIPCannotBeUsed_IsReportedAndTheOldOneStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ip      neutron.FloatingIP
		address string
		want    string
	}{
		"it does not exist": {neutron.FloatingIP{ID: "other"}, "", "floating IP user, named by annotation loadbalancer.openstack.org/floating-ip-id, does not exist in the project"},
		"another address": {
			neutron.FloatingIP{ID: "user", Address: "203.0.113.2"},
			"203.0.113.99",
			"annotation loadbalancer.openstack.org/floating-ip-id names floating IP user, whose address is not 203.0.113.99, which spec.loadBalancerIP requests",
		},
		"it points elsewhere": {
			neutron.FloatingIP{ID: "user", Address: "203.0.113.2", PortID: "elsewhere"},
			"",
			"requested floating IP 203.0.113.2 is in use",
		},
		"it is another Service's": {neutron.FloatingIP{ID: "user", Address: "203.0.113.2", Tags: neighbor().NetworkTags()}, "", "another Service"},
	} {
		t.Run(name, func(t *testing.T) {
			c := made(t, desire())
			c.ips = append(c.ips, test.ip)
			p := change(c, desire(naming("user", test.address)))
			wantNothing(t, p)
			wantNotice(t, p, events.FloatingIPUnavailable, true)
			if !strings.Contains(p.String(), test.want) {
				t.Errorf("the notice is not about %q:\n%s", test.want, p)
			}
		})
	}
}

// marked are floating IPs with a mark of another owner.
func marked(port string) map[string]neutron.FloatingIP {
	ip := func(description string, tags ...string) neutron.FloatingIP {
		return neutron.FloatingIP{
			ID: "theirs", Address: "203.0.113.99", PortID: port, Tags: tags,
			Description: description, NetworkID: "network-outside",
		}
	}
	owned := shop()
	owned.Owner = "tenant/other"
	return map[string]neutron.FloatingIP{
		"another Service":                      ip("", neighbor().NetworkTags()...),
		"another Service of OCCM":              ip(neighbor().FloatingIPDescription()),
		"another cluster":                      ip("", stranger().NetworkTags()...),
		"another cluster, by its tag alone":    ip("", stranger().ClusterTag()),
		"another cluster with the same UIDs":   ip("", owned.NetworkTags()...),
		"another mark alone":                   ip("", owned.OwnerTag()),
		"this cluster, but no Service of it":   ip("", shop().ClusterTag()),
		"the load balancer of another Service": ip("", neighbor().LoadBalancerName()),
		"an ingress controller":                ip("Floating IP for Kubernetes ingress a/web"),
		"Cluster API":                          ip("Created by cluster-api-provider-openstack a"),
	}
}

func owned(d *desired.State) {
	d.Identity.Owner = "tenant/mine"
	d.LoadBalancer.Tags = d.Identity.Tags()
}

func TestChange_FloatingIPOfAnother_IsNotTouched(t *testing.T) {
	t.Parallel()
	const here = "port-vip-lb-1"
	for port, changes := range map[string][]func(*desired.State){
		"":          {owned, asking("203.0.113.99")},
		"elsewhere": {owned, asking("203.0.113.99")},
		here:        {owned, internal},
	} {
		for name, ip := range marked(port) {
			t.Run(name+" at "+port, func(t *testing.T) {
				c := made(t, desire(internal, owned))
				c.carryOut(t, desire(internal, owned))
				c.ips = []neutron.FloatingIP{ip}
				p := change(c, desire(changes...))
				wantNothing(t, p)
				wantNotice(t, p, events.FloatingIPUnavailable, port != here)
				for _, notice := range p.Notices {
					if strings.Contains(notice.Message, "elsewhere") {
						t.Errorf("the notice shows the ID of the port: %s", notice.Message)
					}
				}
			})
		}
	}
}

func TestChange_FloatingIPOfAnotherAtTheLoadBalancer_StaysWhenAnAddressIsRequestedOrRecreated(
	t *testing.T,
) {
	for name, ip := range marked("port-vip-lb-1") {
		for what, change := range map[string]func(*desired.State){
			"address": asking("203.0.113.1"),
			"recreate": func(d *desired.State) {
				d.Recreate, d.LoadBalancer.FlavorID = true, "other"
			},
			"internal recreate": func(d *desired.State) {
				d.FloatingIP = nil
				d.Recreate, d.LoadBalancer.FlavorID = true, "other"
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				c := made(t, desire(internal, owned))
				c.carryOut(t, desire(internal, owned))
				c.ips = []neutron.FloatingIP{ip}
				p := plan.Change(desire(owned, change), c.observe(false))
				for _, step := range p.Steps {
					t.Errorf("a step is planned: %s", step)
				}
				if len(p.Notices) == 0 {
					t.Error("no notice says why")
				}
			})
		}
	}
}

// A Service may name a port with a floating IP: it is the port's, not the load balancer's.
func TestChange_UnmarkedFloatingIPAtANamedPort_IsNotDetached(t *testing.T) {
	t.Parallel()
	at := func(d *desired.State) { d.LoadBalancer.VIP = octavia.VIP{PortID: "port-user"} }
	c := made(t, desire(onePort, internal))
	c.lb, c.listeners, c.pools = nil, nil, nil
	c.ips = []neutron.FloatingIP{{ID: "users", Address: "203.0.113.2", PortID: "port-user"}}
	wantKinds(t, change(c, desire(onePort, at, internal)), "CreateLoadBalancer")
}

// A user's floating IP at a named port is neither detached nor replaced.
func TestChange_UsersFloatingIPIsAtTheNamedPort_IsReportedBeforeAChange(t *testing.T) {
	t.Parallel()
	atPort := func(d *desired.State) { d.LoadBalancer.VIP = octavia.VIP{PortID: "users-port"} }
	users := neutron.FloatingIP{
		ID: "users", Address: "203.0.113.66", NetworkID: "network-outside", PortID: "users-port",
	}
	for name, ask := range map[string]func(*desired.State){
		"of a pool": pooled("pool"), "by address": asking("203.0.113.100"),
		"by ID": naming("pool-0", ""), "new, by address": asking("203.0.113.200"),
	} {
		t.Run(name, func(t *testing.T) {
			c := fresh()
			c.ips = ofPool("pool", 1)
			c.carryOut(t, desire(atPort, internal))
			c.ips = append(c.ips, users)
			p := change(c, desire(atPort, ask))
			wantNothing(t, p)
			wantNotice(t, p, events.FloatingIPUnavailable, true)
			if text := p.String(); !strings.Contains(text, "203.0.113.66") ||
				!strings.Contains(text, "loadbalancer.openstack.org/port-id") ||
				!strings.Contains(text, "detach it") {
				t.Errorf("the notice does not say what to do:\n%s", text)
			}
		})
	}
}

func TestChange_AnothersMarkAppearsBeforeTheAttachment_IsSeen(t *testing.T) {
	t.Parallel()
	c := made(t, desire(internal))
	c.ips = []neutron.FloatingIP{{ID: "user", Address: "203.0.113.99"}}
	p := change(c, desire(asking("203.0.113.99")))
	wantKinds(t, p, "AttachFloatingIP")
	mayUse := p.Steps[0].(plan.AttachFloatingIP).MayUse
	if !mayUse(c.ips[0]) {
		t.Error("an unmarked floating IP is refused")
	}
	for name, ip := range marked("") {
		if name == "another cluster with the same UIDs" {
			continue // without an owner the UIDs decide
		}
		if mayUse(ip) {
			t.Errorf("the floating IP of %s is attached", name)
		}
	}
}

// A plan may wait for minutes between the list and the deletion, which nothing can undo.
func TestChange_FloatingIPIsMovedOrMarkedBeforeTheDeletion_IsSeen(t *testing.T) {
	t.Parallel()
	detached := func(ip *neutron.FloatingIP) { ip.PortID = "" }
	moved := func(ip *neutron.FloatingIP) { ip.PortID = "elsewhere" }
	for name, steps := range map[string]func(c *cloud) plan.Plan{
		"internal": func(c *cloud) plan.Plan { return change(c, desire(internal)) },
		"removed":  func(c *cloud) plan.Plan { return removal(c, all()) },
	} {
		c := made(t, desire())
		listed := c.ips[0]
		p := steps(c)
		i := slices.IndexFunc(p.Steps, func(s plan.Step) bool {
			_, ok := s.(plan.DeleteFloatingIP)
			return ok
		})
		if i < 0 {
			t.Fatalf("%s: no floating IP is deleted:\n%s", name, p)
		}
		owned := p.Steps[i].(plan.DeleteFloatingIP).Owned
		for what, test := range map[string]struct {
			change func(*neutron.FloatingIP)
			want   bool
		}{
			"unchanged": {func(*neutron.FloatingIP) {}, true},
			"detached":  {detached, true},
			"moved":     {moved, false},
			"released":  {func(ip *neutron.FloatingIP) { ip.Tags, ip.Description = nil, "" }, false},
			"of another Service": {
				func(ip *neutron.FloatingIP) { ip.Tags = neighbor().NetworkTags() }, false,
			},
			"described": {func(ip *neutron.FloatingIP) { ip.Description = "reserved" }, false},
		} {
			now := listed
			now.Tags = slices.Clone(listed.Tags)
			slices.Reverse(now.Tags) // Neutron returns tags in any order
			test.change(&now)
			if got := owned(now); got != test.want {
				t.Errorf("%s, %s: it is deleted: %t, want %t", name, what, got, test.want)
			}
		}
	}
}

func TestChange_FloatingIPIsMovedOrMarkedBeforeItsRelease_IsSeen(t *testing.T) {
	t.Parallel()
	c := made(t, desire())
	listed := c.ips[0]
	p := change(c, desire(internal, keep))
	var detach, tag func(neutron.FloatingIP) bool
	for _, step := range p.Steps {
		switch step := step.(type) {
		case plan.DetachFloatingIP:
			detach = step.Owned
		case plan.TagFloatingIP:
			tag = step.Owned
		}
	}
	if detach == nil || tag == nil {
		t.Fatalf("the floating IP is not detached and tagged:\n%s", p)
	}
	moved := func(ip *neutron.FloatingIP) { ip.PortID = "elsewhere" }
	tagged := func(ip *neutron.FloatingIP) { ip.Tags = append(ip.Tags, "reserved") }
	others := func(ip *neutron.FloatingIP) { ip.Tags = neighbor().NetworkTags() }
	for what, test := range map[string]struct {
		change        func(*neutron.FloatingIP)
		detached, tag bool
	}{
		"unchanged":          {func(*neutron.FloatingIP) {}, true, true},
		"moved":              {moved, false, false},
		"tagged":             {tagged, true, false},
		"of another Service": {others, false, false},
	} {
		now := listed
		now.Tags = slices.Clone(listed.Tags)
		test.change(&now)
		if got := detach(now); got != test.detached {
			t.Errorf("%s: it is detached: %t, want %t", what, got, test.detached)
		}
		now.Description = "" // the detachment has cleared it
		if now.PortID == listed.PortID {
			now.PortID = ""
		}
		if got := tag(now); got != test.tag {
			t.Errorf("%s: it is tagged: %t, want %t", what, got, test.tag)
		}
	}
}

// Two clusters of one name have Services with equal descriptions.
func TestChange_DetachedFloatingIPWithOCCMsDescription_IsNotDeleted(t *testing.T) {
	t.Parallel()
	c := made(t, desire(internal))
	c.ips = []neutron.FloatingIP{{
		ID: "unknown", Address: "203.0.113.99", Description: shop().FloatingIPDescription(),
	}}
	wantNothing(t, change(c, desire(internal)))
	if p := removal(c, all()); slices.Contains(kinds(p), "DeleteFloatingIP") {
		t.Errorf("it is deleted:\n%s", p)
	}
}

// The status shows at which address the Service was served. A user may request any address.
func TestChange_DetachedFloatingIPWithOCCMsDescription_IsTheServicesByItsStatus(t *testing.T) {
	const address = "203.0.113.99"
	for name, test := range map[string]struct {
		status string
		ask    func(*desired.State)
		// isUsed: it is attached. isOwned: it is deleted with the Service.
		isUsed, isOwned bool
	}{
		"the status has its address":                  {address, func(*desired.State) {}, true, true},
		"the status has another":                      {"203.0.113.98", func(*desired.State) {}, false, false},
		"the Service was not served":                  {"", func(*desired.State) {}, false, false},
		"the Service requests it":                     {"", asking(address), true, false},
		"the Service requests it by its ID":           {"", naming("theirs", ""), true, false},
		"the status has it, and the Service requests": {address, asking(address), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			served := func(d *desired.State) { d.Identity.LastAddress = test.status }
			c := made(t, desire(internal))
			c.ips = []neutron.FloatingIP{{
				ID: "theirs", Address: address, Tags: []string{},
				Description: shop().FloatingIPDescription(),
			}}
			c.carryOut(t, desire(served, test.ask))
			theirs := c.ip("theirs")
			if theirs == nil || (theirs.PortID != "") != test.isUsed {
				t.Fatalf("the floating IPs are %+v, want this one in use: %t", c.ips, test.isUsed)
			}
			id := shop()
			id.LastAddress = test.status
			p := plan.Removal(id, c.observe(false), all())
			if err := c.run(p, len(p.Steps)); err != nil {
				t.Fatal(err)
			}
			if isLeft := c.ip("theirs") != nil; isLeft == test.isOwned {
				t.Errorf("after the Service the floating IPs are %+v, want this one: %t", c.ips,
					!test.isOwned)
			}
		})
	}
}

func TestChange_FloatingIPUnavailable_IsReportedAndTheOldOneStays(t *testing.T) {
	t.Parallel()
	nowhere := func(d *desired.State) {
		wanted := *d.FloatingIP
		wanted.NetworkID = ""
		d.FloatingIP = &wanted
	}
	t.Run("it leads elsewhere", func(t *testing.T) {
		c := made(t, desire())
		c.ips = append(c.ips,
			neutron.FloatingIP{ID: "user", Address: "203.0.113.99", PortID: "elsewhere"})
		p := change(c, desire(asking("203.0.113.99")))
		wantNothing(t, p)
		wantNotice(t, p, events.FloatingIPUnavailable, true)
	})
	t.Run("there is no network to make it in", func(t *testing.T) {
		c := made(t, desire(internal))
		p := change(c, desire(nowhere, asking("203.0.113.99")))
		wantNothing(t, p)
		wantNotice(t, p, events.FloatingIPUnavailable, true)
	})
}

func TestChange_FloatingIPLeadsElsewhere_IsDisownedAndReplaced(t *testing.T) {
	t.Parallel()
	c := made(t, desire())
	c.ips[0].PortID = "elsewhere"
	moved := c.ips[0].ID
	// The place of another floating IP is not looked up while one exists.
	p := change(c, desire(func(d *desired.State) {
		d.FloatingIP.NetworkID = ""
	}))
	wantKinds(t, p, "TagFloatingIP")
	wantNotice(t, p, events.FloatingIPUnavailable, true)
	p = change(c, desire())
	wantKinds(t, p, "TagFloatingIP", "CreateFloatingIP")
	wantNotice(t, p, events.FloatingIPUnavailable, false)
	c.carryOut(t, desire())
	p = removal(c, all())
	if err := c.run(p, len(p.Steps)); err != nil {
		t.Fatal(err)
	}
	if len(c.ips) != 1 || c.ips[0].ID != moved || c.ips[0].PortID != "elsewhere" {
		t.Errorf("the floating IPs are %v", c.ips)
	}
}

// A user's port for the VIP may have kept its floating IP when the load balancer was deleted by
// hand.
func TestChange_UsersPortHasTheFloatingIP_ItStays(t *testing.T) {
	t.Parallel()
	at := func(d *desired.State) { d.LoadBalancer.VIP = octavia.VIP{PortID: "port-user"} }
	c := made(t, desire(onePort, at))
	c.lb, c.listeners, c.pools = nil, nil, nil
	wantKinds(t, change(c, desire(onePort, at)), "CreateLoadBalancer")
	wantKinds(t, change(c, desire(onePort, at, internal)), "CreateLoadBalancer", "DeleteFloatingIP")
}
