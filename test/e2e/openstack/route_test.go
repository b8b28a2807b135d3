package openstack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// routed runs the whole CCM with the site's router.
func routed(t *testing.T, s *site, change ...func(*launch)) *replica {
	t.Helper()
	return ready(t, s, append([]func(*launch){
		refreshed, configured(func(c *cloudconf.Config) { c.Route.RouterID = s.router }),
	}, change...)...)
}

// route formats a route of the router: "destination via next hop".
func route(destination, nextHop string) string { return destination + " via " + nextHop }

func (s *site) routes() []string {
	var all []string
	for _, r := range s.Routes(s.router) {
		all = append(all, route(r.Destination, r.NextHop))
	}
	slices.Sort(all)
	return all
}

// waitRoutes waits until the router has exactly these routes.
func (s *site) waitRoutes(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	waittest.Until(s.t, fmt.Sprintf("the routes of the router are %q", want), func() error {
		if got := s.routes(); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// setRoutes changes the routes like another client.
func (s *site) setRoutes(texts ...string) {
	s.t.Helper()
	var routes []openstacktest.Route
	for _, text := range texts {
		destination, nextHop, _ := strings.Cut(text, " via ")
		routes = append(routes, openstacktest.Route{Destination: destination, NextHop: nextHop})
	}
	s.must(s.SetRoutes(s.router, routes...))
}

// pairs are the addresses that the machine's port may send from, in addition to its own.
func (s *site) pairs(m machine) []string {
	pairs := []string{}
	for _, p := range s.Ports() {
		if p.ID == m.port {
			for _, pair := range p.AllowedPairs {
				pairs = append(pairs, pair.Address)
			}
		}
	}
	slices.Sort(pairs)
	return pairs
}

func (s *site) wantPairs(m machine, want ...string) {
	s.t.Helper()
	if got := s.pairs(m); !slices.Equal(got, want) {
		s.t.Errorf("the port of %s may send from %q, want %q", m.name, got, want)
	}
}

// waitNetwork waits until the node's condition reports its routes.
func waitNetwork(t *testing.T, name string) {
	t.Helper()
	ccmtest.Eventually(t, name+" has the condition for its routes",
		ccmtest.Object(shared.Client(t).CoreV1().Nodes().Get, name, func(n *corev1.Node) error {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse {
					return nil
				}
			}
			return fmt.Errorf("its conditions are %v", n.Status.Conditions)
		}))
}

// The test covers the first to the last route, in a router that others use too.
func TestRoute_ComesMovesAndGoesWithItsNode_AndThoseOfOthersStay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stranger := s.addServer("stranger")
	foreign := []string{
		route("192.168.0.0/16", "10.0.200.1"), // outside of the cluster's CIDR
		route("10.244.200.0/24", s.address(stranger, 4)),
	}
	s.setRoutes(foreign...)
	with := func(own ...string) []string { return append(slices.Clone(foreign), own...) }
	r := routed(t, s)
	one, two := s.addServer("route-1"), s.addServer("route-2")
	tainted(t, one.name, ccmtest.NodePodCIDRs("10.244.1.0/24"))
	tainted(t, two.name, ccmtest.NodePodCIDRs("10.244.2.0/24"))
	s.waitRoutes(with(route("10.244.1.0/24", s.address(one, 4)),
		route("10.244.2.0/24", s.address(two, 4)))...)
	waitNetwork(t, one.name)
	waitNetwork(t, two.name)
	s.wantPairs(one, "10.244.1.0/24")
	s.wantPairs(two, "10.244.2.0/24")
	s.wantPairs(stranger)

	// Another client adds a route meanwhile.
	foreign = append(foreign, route("192.168.77.0/24", "10.0.200.2"))
	s.setRoutes(with(route("10.244.1.0/24", s.address(one, 4)),
		route("10.244.2.0/24", s.address(two, 4)))...)
	before := s.mark()
	s.must(s.UpdatePort(one.port, func(p *openstacktest.Port) {
		p.FixedIPs = []openstacktest.FixedIP{{SubnetID: s.subnets[4], Address: "10.0.99.1"}}
	}))
	waitAddress(t, one.name, corev1.NodeInternalIP, "10.0.99.1")
	s.waitRoutes(with(route("10.244.1.0/24", "10.0.99.1"),
		route("10.244.2.0/24", s.address(two, 4)))...)
	s.wantPairs(one, "10.244.1.0/24")
	if wrote := len(
		s.since(before, operations("router_*extraroutes", "router_update"))); wrote > 6 {
		t.Errorf("the router was written %d times for one route", wrote)
	}

	deleteNode(t, one.name)
	s.waitRoutes(with(route("10.244.2.0/24", s.address(two, 4)))...)
	// The server is deleted, and the node and the route follow.
	s.must(s.DeleteServer(two.id))
	setReady(t, two.name, corev1.ConditionFalse)
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, two.name))
	s.waitRoutes(foreign...)
	r.unbroken()
}

// A cluster hibernates: its nodes and servers go while no Manager leads, and other ones with the
// same pod CIDRs come later. A stranger's route has no server, either.
func TestRoute_NodesGoWhileNoManagerLeads_NewNodesGetTheirRoutes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	foreign := route("10.244.200.0/24", "10.0.200.1")
	s.setRoutes(foreign)
	before := routed(t, s)
	join := func(name, address, cidr string) (machine, string) {
		m := s.addServer(name)
		s.must(s.UpdatePort(m.port, func(p *openstacktest.Port) {
			p.FixedIPs = []openstacktest.FixedIP{{SubnetID: s.subnets[4], Address: address}}
		}))
		tainted(t, m.name, ccmtest.NodePodCIDRs(cidr))
		return m, route(cidr, address)
	}
	serverOne, one := join("winter-1", "10.0.99.1", "10.244.1.0/24")
	serverTwo, two := join("winter-2", "10.0.99.2", "10.244.2.0/24")
	s.waitRoutes(one, two, foreign)
	record, err := shared.Admin.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(),
		"fxccm-routes", metav1.GetOptions{})
	s.must(err)
	if got, want := record.Data[s.router], one+" winter-1\n"+two+" winter-2\n"; got != want {
		t.Errorf("the record is %q, want %q", got, want)
	}
	before.stop()
	for _, m := range []machine{serverOne, serverTwo} {
		deleteNode(t, m.name)
		s.must(s.DeleteServer(m.id))
	}

	after := routed(t, s)
	s.waitRoutes(one, two, foreign)
	_, three := join("summer-1", "10.0.99.3", "10.244.1.0/24")
	_, four := join("summer-2", "10.0.99.1", "10.244.2.0/24")
	s.waitRoutes(three, four, foreign)
	waitNetwork(t, "summer-1")
	waitNetwork(t, "summer-2")
	after.unbroken()
}
