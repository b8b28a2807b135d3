package loadbalancer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// another returns the same cloud for another cluster.
func (s *site) another() *site {
	return &site{
		Cloud: s.Cloud, t: s.t, kube: newKube(), defaults: s.defaults,
		clock: s.clock, pause: s.pause,
		network: s.network, subnet: s.subnet, external: s.external, serial: s.serial + 100,
	}
}

// twoClusters share the load balancer of the first one's Service web, with port 80. The second
// cluster has a Service of the same name, with port 443.
type twoClusters struct {
	first, second *cluster
	owner, guest  *v1.Service
	nodes         [2]*v1.Node
	id            string
}

func newTwoClusters(t *testing.T, options ...openstacktest.Option) *twoClusters {
	t.Helper()
	return newOwnedClusters(t, "", "", options...)
}

// newOwnedClusters gives the clusters their names in a fleet.
func newOwnedClusters(
	t *testing.T, first, second string, options ...openstacktest.Option,
) *twoClusters {
	t.Helper()
	s := newSite(t, options...)
	s.owner = first
	c := &twoClusters{first: s.begin("cluster-1", s.kube)}
	c.nodes[0] = s.addNode("a")
	c.owner = s.addService("web", 80)
	c.first.ensure(c.owner, c.nodes[0])
	c.id = s.LoadBalancers()[0].ID
	other := s.another()
	other.owner = second
	c.second = other.begin("cluster-2", other.kube)
	c.nodes[1] = other.addNode("b")
	c.guest = other.addGuest(c.id, "web", 443)
	return c
}

// ports describes each port of the load balancer with the clusters of its tag and its member; "" if
// the load balancer is gone.
func (c *twoClusters) ports() string {
	lb, err := c.first.site.LoadBalancer(c.id)
	if err != nil {
		return "gone"
	}
	var ports []string
	for _, l := range lb.Listeners {
		at := slices.IndexFunc(lb.Pools,
			func(p openstacktest.Pool) bool { return p.ID == l.DefaultPoolID })
		ports = append(ports,
			fmt.Sprint(l.ProtocolPort, " ", l.Tags[1], " ", lb.Pools[at].Members[0].Name))
	}
	slices.Sort(ports)
	if len(lb.Pools) != len(lb.Listeners) {
		ports = append(ports, fmt.Sprintf("and %d pools", len(lb.Pools)))
	}
	return strings.Join(ports, ", ")
}

const (
	ownersPort = "80 fxccm-cluster=cluster-1 a"
	guestsPort = "443 fxccm-cluster=cluster-2 b"
	bothPorts  = guestsPort + ", " + ownersPort
)

func (c *twoClusters) want(t *testing.T, when, ports string, tags ...string) {
	t.Helper()
	if got := c.ports(); got != ports {
		t.Errorf("%s: the ports are %q, want %q", when, got, ports)
	}
	if ports == "gone" {
		return
	}
	got := slices.Sorted(slices.Values(c.first.site.tags(c.id)))
	slices.Sort(tags)
	if !slices.Equal(got, tags) {
		t.Errorf("%s: the tags are %q, want %q", when, got, tags)
	}
}

const webName = "kube_service_kubernetes_default_web"

func (c *twoClusters) ownerTags() []string {
	tags := []string{webName, "fxccm-cluster=cluster-1", "fxccm-service=" + string(c.owner.UID)}
	if mark := (desired.Identity{Owner: c.first.config.Owner}).OwnerTag(); mark != "" {
		tags = append(tags, mark)
	}
	return tags
}

func (c *twoClusters) guestTags() []string {
	return []string{
		webName, "fxccm-cluster=cluster-2", "fxccm-guest=cluster-2",
		"fxccm-service=" + string(c.guest.UID),
	}
}

func (c *twoClusters) bothTags() []string { return append(c.ownerTags(), c.guestTags()[1:]...) }

func TestClusters_ShareALoadBalancer_EachTouchesItsOwn(t *testing.T) {
	t.Parallel()
	for name, ownerFirst := range map[string]bool{"owner leaves": true, "guest leaves": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTwoClusters(t)
			status := c.second.ensure(c.guest, c.nodes[1])
			c.want(t, "joined", bothPorts, c.bothTags()...)
			if ips := c.first.site.FloatingIPs(); len(ips) != 1 ||
				status.Ingress[0].IP != ips[0].Address {
				t.Errorf("the guest has %+v, the floating IPs are %+v", status, ips)
			}
			mark := c.first.site.mark()
			c.first.ensure(c.owner, c.nodes[0])
			c.second.ensure(c.guest, c.nodes[1])
			if writes := c.first.site.writes(mark); len(writes) > 0 {
				t.Errorf("without a change they write %q", writes)
			}
			if ownerFirst {
				c.first.remove(c.owner)
				c.want(t, "the owner has left", guestsPort, c.guestTags()...)
				if ips := c.first.site.FloatingIPs(); len(ips) != 1 || ips[0].PortID == "" {
					t.Errorf("the guest's floating IPs are %+v", ips)
				}
				c.second.remove(c.guest)
				c.want(t, "the guest has left too", "")
				return
			}
			c.second.remove(c.guest)
			c.want(t, "the guest has left", ownersPort, c.ownerTags()...)
			c.first.remove(c.owner)
			c.want(t, "the owner has left too", "gone")
			if ips := c.first.site.FloatingIPs(); len(ips) != 0 {
				t.Errorf("the floating IPs %+v are left", ips)
			}
		})
	}
}

func TestClusters_JoinOrLeaveIsInterrupted_NextPassRepairsIt(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{false, true} {
		for i := range 6 {
			for phase := range 3 {
				c := newTwoClusters(t)
				inject := func(now int) {
					if now != phase {
						return
					}
					c.first.site.Inject(openstacktest.Fault{
						Match: func(call openstacktest.Call) bool {
							return call.Method != http.MethodGet &&
								call.Service != openstacktest.ServiceIdentity
						},
						Skip: i, Times: 1, Status: http.StatusBadRequest, AfterEffect: carriedOut,
					})
				}
				what := fmt.Sprintf("phase %d, write %d, carried out: %t", phase, i+1, carriedOut)
				inject(0)
				c.second.persist(c.guest, c.nodes[1:])
				c.want(t, what+": joined", bothPorts, c.bothTags()...)
				inject(1)
				c.first.persistRemoving(c.owner)
				c.want(t, what+": the owner has left", guestsPort, c.guestTags()...)
				inject(2)
				c.second.persistRemoving(c.guest)
				c.want(t, what+": both have left", "")
			}
		}
	}
}

// Another cluster reads the tags before this one's are written, and writes its own list after that.
func TestClusters_WriteTagsAtOnce_LostOnesAreWrittenAgain(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"join": false, "leave": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stale atomic.Pointer[func()]
			c := newTwoClusters(t, openstacktest.WithObserver(func(call openstacktest.Call) {
				if call.Operation == "loadbalancer_update" {
					if overwrite := stale.Swap(nil); overwrite != nil {
						(*overwrite)()
					}
				}
			}))
			overwrite := func() {
				tags := append(c.ownerTags(), "third")
				if leaves {
					tags = append(c.bothTags(), "third")
				}
				if err := c.first.site.ChangeLoadBalancer(c.id,
					func(lb *openstacktest.LoadBalancer) { lb.Tags = tags }); err != nil {
					t.Error(err)
				}
			}
			if !leaves {
				stale.Store(&overwrite)
			}
			c.second.ensure(c.guest, c.nodes[1])
			if !leaves {
				c.want(t, "joined", bothPorts, append(c.bothTags(), "third")...)
				return
			}
			stale.Store(&overwrite)
			c.second.remove(c.guest)
			c.want(t, "left", ownersPort, append(c.ownerTags(), "third")...)
		})
	}
}

// leaveToOCCM changes the load balancer to one that OCCM creates for a Service of this name:
// without tags of fxccm.
func (c *twoClusters) leaveToOCCM(t *testing.T, name string, guests ...string) {
	t.Helper()
	if err := c.first.site.ChangeLoadBalancer(c.id, func(lb *openstacktest.LoadBalancer) {
		lb.Name, lb.Tags = name, append([]string{name}, guests...)
		lb.Listeners[0].Name, lb.Listeners[0].Tags = "listener_0_"+name, []string{name}
		lb.Pools[0].Name, lb.Pools[0].Tags = "pool_0_"+name, nil
	}); err != nil {
		t.Fatal(err)
	}
	c.first = c.first.site.begin("cluster-1", c.first.site.kube)
}

// A guest may be reconciled before the owner, and its cluster may migrate to fxccm earlier.
func TestClusters_GuestOfOCCMsIsFirst_OwnerStaysTheOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		isOwnGuest, ownerIsUnknown, ownerLeavesFirst bool
		// left are the remaining ports of the load balancer.
		left string
	}{
		"the owner's cluster":                      {isOwnGuest: true, left: "gone"},
		"the owner's cluster, owner leaves first":  {isOwnGuest: true, ownerLeavesFirst: true, left: "gone"},
		"the owner's cluster, owner leaves unseen": {isOwnGuest: true, ownerIsUnknown: true, ownerLeavesFirst: true, left: "gone"},
		"another cluster":                          {left: "gone"},
		"another cluster, guest leaves unseen":     {ownerIsUnknown: true, left: "gone"},
		"another cluster, owner leaves first":      {ownerLeavesFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTwoClusters(t)
			c.leaveToOCCM(t, webName, "kube_service_kubernetes_default_api")
			in := c.second
			if test.isOwnGuest {
				in = c.first
			}
			guest := in.site.addGuest(c.id, "api", 8080)
			in.ensure(guest, c.nodes[1])
			if !test.ownerIsUnknown {
				c.first.ensure(c.owner, c.nodes[0])
			}
			if test.ownerLeavesFirst {
				c.first.remove(c.owner)
			}
			in.remove(guest)
			if !test.ownerLeavesFirst {
				c.first.ensure(c.owner, c.nodes[0])
				c.want(t, "the guest has left", ownersPort, c.ownerTags()...)
				c.first.remove(c.owner)
			}
			c.want(t, "both have left", test.left)
			if ips := c.first.site.FloatingIPs(); (len(ips) == 0) != (test.left == "gone") {
				t.Errorf("the floating IPs are %+v", ips)
			}
		})
	}
}

// Without its mark, a guest would treat the load balancer as one that its own cluster left.
func TestClusters_OwnerHasLeftAndTagsAreLost_GuestDeletesNoLoadBalancer(t *testing.T) {
	t.Parallel()
	c := newTwoClusters(t)
	guest := c.second.site.addGuest(c.id, "api", 443)
	c.second.ensure(guest, c.nodes[1])
	c.first.remove(c.owner)
	c.second.tagLate(c.id)
	if err := c.second.forgetList(); err != nil {
		t.Fatal(err)
	}
	c.second.ensure(guest, c.nodes[1])
	c.second.remove(guest)
	c.want(t, "both have left", "")
	if ips := c.first.site.FloatingIPs(); len(ips) != 1 || ips[0].PortID == "" {
		t.Errorf("the floating IPs are %+v", ips)
	}
}

// The annotation of OCCM comes from a manifest that was copied from a cluster of another name.
func TestClusters_AnnotationCopiedFromOCCMs_NeverMakesAnOwner(t *testing.T) {
	t.Parallel()
	c := newTwoClusters(t)
	const prod = "kube_service_prod_default_web"
	c.leaveToOCCM(t, prod)
	c.second.ensure(c.guest, c.nodes[1])
	c.second.ensure(c.guest, c.nodes[1])
	c.second.remove(c.guest)
	lb, err := c.first.site.LoadBalancer(c.id)
	if err != nil || len(lb.Listeners) != 1 || !slices.Equal(lb.Tags, []string{prod}) {
		t.Errorf("after the guest has left, the load balancer is %+v, %v", lb, err)
	}
}

func TestClusters_LimitOfShares_CountsBoth(t *testing.T) {
	t.Parallel()
	c := newTwoClusters(t)
	c.second.ensure(c.guest, c.nodes[1])
	for _, cluster := range []*cluster{c.first, c.second} {
		third := cluster.site.addGuest(c.id, "third", 8080)
		if err := cluster.forgetList(); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.EnsureLoadBalancer(t.Context(), "kubernetes", third,
			c.nodes[:1]); !isWait(err) {
			t.Errorf("the third Service gets the error %v", err)
		}
		said := cluster.site.said("max-shared-lb")
		if len(said) != 1 || !strings.HasPrefix(said[0], "Warning LoadBalancerNotShared: ") {
			t.Errorf("the events are %q, want one LoadBalancerNotShared", said)
		}
	}
	c.want(t, "after that", bothPorts, c.bothTags()...)
}

// OCCM recognizes a load balancer's Services by their names in its tags.
func TestClusters_OCCMBeside_IsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newTwoClusters(t)
	const theirs = "kube_service_prod_default_api"
	api, ctx := c.first.config.Octavia, t.Context()
	pool, err := api.CreatePool(ctx, c.id, "",
		octavia.Pool{Name: "pool_0_" + theirs, Protocol: octavia.TCP, Algorithm: "ROUND_ROBIN"})
	if err == nil {
		_, err = api.CreateMember(ctx, pool,
			octavia.Member{Name: "c", Address: "10.0.0.101", Port: 30080, Weight: 1})
	}
	if err == nil {
		_, err = api.CreateListener(ctx, c.id, octavia.Listener{
			Name: "listener_0_" + theirs, Tags: []string{"occm", theirs}, Protocol: octavia.TCP,
			Port: 9000, ConnectionLimit: -1,
		}, pool)
	}
	if err == nil {
		err = api.UpdateLoadBalancer(ctx, c.id, append(c.ownerTags(), theirs))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.first.site.defaults.LoadBalancer.MaxSharedLB = 3
	c.second.site.defaults.LoadBalancer.MaxSharedLB = 3
	c.second = c.second.site.begin("cluster-2", c.second.site.kube)
	const theirPort = ", 9000 " + theirs + " c"
	c.second.ensure(c.guest, c.nodes[1])
	c.want(t, "joined", bothPorts+theirPort, append(c.bothTags(), theirs)...)
	c.first.remove(c.owner)
	c.want(t, "the owner has left", guestsPort+theirPort, append(c.guestTags(), theirs)...)
	c.second.remove(c.guest)
	c.want(t, "both have left", strings.TrimPrefix(theirPort, ", "), theirs)
}
