package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// fillPool adds unused floating IPs with the tag, and returns their IDs.
func (s *site) fillPool(tag string, count int) []string {
	s.t.Helper()
	var ids []string
	for range count {
		ids = append(ids, s.AddFloatingIP(openstacktest.FloatingIP{
			NetworkID: s.external, Tags: []string{tag}, Description: "of the operator",
		}))
	}
	return ids
}

// wantReturned fails the test unless the floating IPs are unused, and as the operator has made
// them.
func (s *site) wantReturned(tag string, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.wantUnused(id, tag)
		if ip := s.one(id); ip.Description != "of the operator" {
			s.t.Errorf("the description of %s is %q", ip.Address, ip.Description)
		}
	}
}

// addPooled creates a Service that requests a floating IP of the pool.
func (s *site) addPooled(name, tag string) *v1.Service {
	s.t.Helper()
	service := s.addService(name, 80)
	annotations("floating-ip-tag", tag)(service)
	s.update(service)
	return service
}

func TestPool_Service_KeepsOneAndGivesItBack(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	pool, other := s.fillPool("front", 3), s.fillPool("fronts", 1)
	service := s.addPooled("web", "front")
	first := published(c.ensure(service, node))
	serves := func(when string) {
		t.Helper()
		c = s.begin("cluster-1", s.kube) // a new leader knows nothing
		if got := published(c.ensure(service, node)); !slices.Equal(got, first) {
			t.Errorf("%s: published is %q, was %q", when, got, first)
		}
		mark := s.mark()
		c.ensure(service, node)
		if writes := s.writes(mark); len(writes) > 0 {
			t.Errorf("%s: the next pass sends %v", when, writes)
		}
	}
	at := slices.IndexFunc(pool, func(id string) bool { return s.one(id).Address == first[0] })
	if at < 0 {
		t.Fatalf("%q is not an address of the pool", first)
	}
	used := pool[at]
	if tags := s.one(used).Tags; !slices.Contains(tags, "front") ||
		!slices.Contains(tags, desired.PoolTag("front")) ||
		!slices.Contains(tags, "fxccm-service="+string(service.UID)) {
		t.Errorf("the tags are %q", tags)
	}
	serves("unchanged")
	s.requests(service, "recreate", "true", "subnet-id", s.anotherSubnet())
	serves("recreated")
	if err := c.config.Octavia.DeleteLoadBalancer(t.Context(), s.LoadBalancers()[0].ID,
		true); err != nil {
		t.Fatal(err)
	}
	serves("deleted by another client")

	s.requests(service, "floating-ip-tag", "fronts")
	if got := published(c.ensure(service, node)); got[0] != s.one(other[0]).Address {
		t.Errorf("of another pool, published is %q", got)
	}
	s.wantReturned("front", pool...)
	s.requests(service, "floating-ip-tag", "front")
	if got := published(c.ensure(service, node)); !slices.Equal(got, first) {
		t.Errorf("of the pool again, published is %q, was %q", got, first)
	}
	c.remove(service)
	s.wantReturned("front", pool...)
	s.wantReturned("fronts", other...)
}

// Services of two clusters and many at once never get the same floating IP.
func TestPool_ManyServicesAtOnce_EachHasItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	node := s.addNode("a")
	const each = 4
	pool := s.fillPool("front", 2*each)
	var services []*v1.Service
	var clusters []*cluster
	for n := range 2 {
		at := s
		if n > 0 {
			at = s.another()
		}
		for i := range each {
			services = append(services, at.addPooled(fmt.Sprintf("web-%d", i), "front"))
			clusters = append(clusters, nil)
		}
		c := at.begin(fmt.Sprintf("cluster-%d", n), at.kube)
		for i := range each {
			clusters[n*each+i] = c
		}
	}
	addresses := make([]string, len(services))
	var group sync.WaitGroup
	for i, service := range services {
		group.Go(func() {
			for range 200 {
				status, err := clusters[i].EnsureLoadBalancer(t.Context(), "kubernetes",
					clusters[i].site.now(service), []*v1.Node{node})
				if err == nil {
					addresses[i] = published(status)[0]
					return
				}
				if !isWait(err) {
					t.Error(err)
					return
				}
				if err := clusters[i].forgetList(service.UID); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	slices.Sort(addresses)
	if addresses[0] == "" || len(slices.Compact(addresses)) != len(services) {
		t.Errorf("the addresses are %q, want %d different ones", addresses, len(services))
	}
	for i, service := range services {
		clusters[i].remove(service)
	}
	s.wantReturned("front", pool...)
}

// An empty pool is a Warning that says what to do; the load balancer is there, and the Service is
// served when the pool has a floating IP.
func TestPool_Empty_IsReportedAndServedLater(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	s.reserve("front")
	before := s.FloatingIPs()
	service := s.addPooled("web", "front")
	c.wantRefused(events.FloatingIPUnavailable, service, node)
	if said := s.said("release one, or create one and set the tag"); len(said) != 1 ||
		!strings.Contains(said[0], "annotation loadbalancer.openstack.org/floating-ip-tag") {
		t.Errorf("the events are %q", said)
	}
	if after := s.FloatingIPs(); !slices.EqualFunc(after, before,
		func(a, b openstacktest.FloatingIP) bool {
			return a.PortID == b.PortID && slices.Equal(a.Tags, b.Tags)
		}) {
		t.Errorf("the floating IPs are %+v, were %+v", after, before)
	}
	id := s.fillPool("front", 1)[0]
	c = s.begin("cluster-1", s.kube) // it has no list from before
	if got := published(c.ensure(service, node)); !slices.Equal(got, []string{s.one(id).Address}) {
		t.Errorf("published is %q, want %s", got, s.one(id).Address)
	}
	c.remove(service)
	s.wantReturned("front", id)
}

// Another client takes the floating IP between the list and the attachment.
func TestPool_FloatingIPIsTakenMeanwhile_AnotherOneIsUsed(t *testing.T) {
	t.Parallel()
	var s *site
	taken, port := "", ""
	s = newSite(t, openstacktest.WithObserver(func(call openstacktest.Call) {
		if call.Operation != "floating_ip_get" || taken != "" {
			return
		}
		taken = call.Path[strings.LastIndex(call.Path, "/")+1:]
		if err := s.UpdateFloatingIP(taken,
			func(ip *openstacktest.FloatingIP) { ip.PortID = port }); err != nil {
			t.Error(err)
		}
	}))
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	port = s.AddPort(openstacktest.Port{
		NetworkID: s.network, FixedIPs: []openstacktest.FixedIP{{SubnetID: s.subnet}},
	})
	pool := s.fillPool("front", 2)
	service := s.addPooled("web", "front")
	got := published(c.ensure(service, node))
	free := pool[0]
	if free == taken {
		free = pool[1]
	}
	if taken == "" || !slices.Equal(got, []string{s.one(free).Address}) {
		t.Errorf("published is %q, want %s; %q was taken", got, s.one(free).Address, taken)
	}
	if tags := s.one(taken).Tags; !slices.Equal(tags, []string{"front"}) {
		t.Errorf("the tags of the one that was taken are %q", tags)
	}
}

// The operator tags a floating IP after it was listed.
func TestPool_FloatingIPIsTaggedMeanwhile_TheNewTagStays(t *testing.T) {
	t.Parallel()
	var s *site
	tagged := ""
	s = newSite(t, openstacktest.WithObserver(func(call openstacktest.Call) {
		if call.Operation != "floating_ip_list" || tagged != "" || len(s.FloatingIPs()) == 0 {
			return
		}
		tagged = s.FloatingIPs()[0].ID
		if err := s.UpdateFloatingIP(tagged, func(ip *openstacktest.FloatingIP) {
			ip.Tags = append(ip.Tags, "billing")
		}); err != nil {
			t.Error(err)
		}
	}))
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	s.fillPool("front", 1)
	service := s.addPooled("web", "front")
	c.ensure(service, node)
	tags := s.one(tagged).Tags
	if !slices.Contains(tags, "billing") || !slices.Contains(tags, desired.PoolTag("front")) {
		t.Errorf("the tags are %q", tags)
	}
	c.remove(service)
	s.wantUnused(tagged, "front", "billing")
}

// Neutron refuses a second floating IP for a port. A user's at the named port stays there.
func TestPool_NamedPortHasAFloatingIP_IsReportedWithoutAChangeOfFloatingIPs(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	port := s.AddPort(openstacktest.Port{
		NetworkID: s.network, FixedIPs: []openstacktest.FixedIP{{SubnetID: s.subnet}},
	})
	users := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, PortID: port})
	pool := s.fillPool("front", 2)
	service := s.addPooled("web", "front")
	annotations("port-id", port)(service)
	mark := s.mark()
	c.wantRefused(events.FloatingIPUnavailable, service, node)
	for _, w := range s.writes(mark) {
		if strings.Contains(w, "floatingips") {
			t.Errorf("the requests are %q", s.writes(mark))
			break
		}
	}
	if said := s.said("annotation loadbalancer.openstack.org/port-id"); len(said) != 1 ||
		!strings.Contains(said[0], s.one(users).Address) ||
		!strings.Contains(said[0], "detach it") {
		t.Errorf("the events are %q", s.said("Warning "))
	}
	s.wantReturned("front", pool...)
	// The way out of the message.
	if err := s.UpdateFloatingIP(users,
		func(ip *openstacktest.FloatingIP) { ip.PortID = "" }); err != nil {
		t.Fatal(err)
	}
	c = s.begin("cluster-1", s.kube) // it has no list from before
	c.ensure(service, node)
	// The deletion does not wait for a floating IP that a user attaches.
	c.remove(service)
	s.wantReturned("front", pool...)
	if err := s.UpdateFloatingIP(users,
		func(ip *openstacktest.FloatingIP) { ip.PortID = port }); err != nil {
		t.Fatal(err)
	}
	if _, exists, err := c.GetLoadBalancer(t.Context(), "kubernetes", s.now(service)); err != nil ||
		exists {
		t.Errorf("the load balancer exists: %v, error %v", exists, err)
	}
}

// The clean-up of a cluster of a fleet gives the floating IPs back.
func TestPool_ClusterIsDeleted_TheFloatingIPsReturn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.owner = ownerOne
	pool := s.fillPool("front", 2)
	s.begin("cluster-1", s.kube).ensure(s.addPooled("web", "front"), s.addNode("a"))
	s.successor().cleanUp("cluster-1")
	if lbs := s.LoadBalancers(); len(lbs) > 0 {
		t.Errorf("%v remain", lbs)
	}
	s.wantReturned("front", pool...)
}

func TestPool_Preview_ShowsTheOneThatIsTaken(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	s.fillPool("front", 12)
	service := s.addPooled("web", "front")
	mark := s.mark()
	preview, err := c.Preview(t.Context(), "kubernetes", service, []*v1.Node{node}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("a preview sends %v", writes)
	}
	address := published(c.ensure(service, node))[0]
	text := preview.Plan.String()
	if !strings.Contains(text, "take floating IP "+address+" ") ||
		!strings.Contains(text, "of the pool front, or another one of 11 if that is taken") {
		t.Errorf("%s was taken, but the plan was:\n%s", address, text)
	}
	outline := strings.Join(append(preview.Desired, preview.Observed...), "\n")
	for _, want := range []string{"floating IP of the pool front", "4 more unused floating IPs"} {
		if !strings.Contains(outline, want) {
			t.Errorf("the outline is\n%s\nwant %q", outline, want)
		}
	}
}
