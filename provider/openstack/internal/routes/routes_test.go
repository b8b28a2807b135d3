package routes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Texts of errors.
const (
	conflicts = "Neutron: another route to "
	isForeign = "Neutron: the route does not belong to this cluster"
)

func fakeClock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(time.Now()) }

func TestDeleteRoute_WithoutAName_MeansTheNodesRoute(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	s.addPort("other", "10.0.0.66")
	s.setRoutes("10.244.1.0/24 via 10.0.0.11", "10.244.1.0/24 via 10.0.0.66")
	c.must(c.DeleteRoute(t.Context(), "cluster", routeTo("a", "10.244.1.0/24")))
	s.wantRoutes("10.244.1.0/24 via 10.0.0.66")
}

// This number of addresses needs several requests, and the responses to two of them contain the
// same dual-stack port.
func TestCreateRoute_ManyDualStackNodesAtOnce_EachHasBoth(t *testing.T) {
	c := newCluster(t, newSite(t), nil)
	const nodes = addressesPerList
	var wanted []*cloudprovider.Route
	for i := range nodes {
		name := fmt.Sprintf("node-%02d", i)
		v4, v6 := fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("fd00:244:%x::/64", i)
		c.addNode(name, []string{fmt.Sprintf("10.0.10.%d", i+1), fmt.Sprintf("fd00::%x", i+0x100)},
			v4, v6)
		wanted = append(wanted, routeTo(name, v4), routeTo(name, v6))
	}
	for i, err := range c.createAll(wanted) {
		if err != nil {
			t.Errorf("%s: %v", wanted[i].DestinationCIDR, err)
		}
	}
	if got := len(c.site.Routes(c.site.router)); got != 2*nodes {
		t.Errorf("the router has %d routes, want %d", got, 2*nodes)
	}
	if counts := c.site.Counts(); c.routerWrites() > 20 || counts["port_list"] > 40 {
		t.Errorf("%d routes cost %v, want at most 20 writes of the router and 40 lists of ports",
			2*nodes, counts)
	}
}

// In 45 minutes the router is read nine times, and the ports for their address pairs five times.
func TestListRoutes_Idle_CostsOneRequestInFiveMinutes(t *testing.T) {
	s, clock := newSite(t), fakeClock()
	c := newCluster(t, s, clock)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.must(c.create("a", "10.244.1.0/24"))
	s.addPort("other", "10.0.0.66")
	s.setRoutes("10.244.1.0/24 via 10.0.0.11", "192.168.0.0/16 via 10.0.0.99",
		"10.245.0.0/24 via 10.0.0.66")
	pass := func(seconds int) {
		for range seconds / 10 {
			clock.Step(10 * time.Second)
			c.list()
		}
	}
	pass(600)
	s.ForgetCalls()
	pass(45 * 60)
	s.wantCounts(map[string]int{"router_get": 9, "port_list": 5})
	if n := len(s.Counts()); n != 2 {
		t.Errorf("45 minutes cost %v", s.Counts())
	}
}

func TestListRoutes_OutsideChange_IsSeenAfterFiveMinutes_AndOwnChangesAtOnce(t *testing.T) {
	s, clock := newSite(t), fakeClock()
	c := newCluster(t, s, clock)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.must(c.create("a", "10.244.1.0/24"))
	if len(c.list()) != 1 {
		t.Error("our own route is not listed")
	}
	s.setRoutes()
	clock.Step(5*time.Minute - time.Second)
	if len(c.list()) != 1 {
		t.Error("the copy was dropped too early")
	}
	clock.Step(time.Second)
	if len(c.list()) != 0 {
		t.Error("after 5 minutes a foreign change is not seen")
	}
	s.ForgetCalls()
	c.must(c.create("a", "10.244.1.0/24"))
	if len(c.list()) != 1 {
		t.Error("our own route is not listed")
	}
	s.wantCounts(map[string]int{"router_get": 0})
}

func TestCreateRoute_OneBadNextHopAmongMany_FailsAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, nil)
		wanted := c.addNodes(40)
		// A port on the network, but on a subnet that the router is not connected to: without
		// address pairs fxccm does not look.
		c.must(s.SetExtension(extensionAddressPairs, false))
		c.setNode(node("node-017", []string{"172.16.0.1"}, wanted[17].DestinationCIDR))
		errs := c.createAll(wanted)
		if failed := failures(errs); !slices.Equal(failed, []int{17}) ||
			!strings.Contains(errs[17].Error(), "the nexthop is not connected with router") {
			t.Errorf("%v failed: %v", failed, errs)
		}
		if got := len(s.Routes(s.router)); got != 39 {
			t.Errorf("the router has %d routes, want 39", got)
		}
	})
}

// The first address is in a network that the router is not connected to.
func TestCreateRoute_SeveralInternalIPs_TheOneAtTheRouterIsTheNextHop(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	other := s.AddNetwork(openstacktest.Network{Name: "storage"})
	subnet := s.AddSubnet(openstacktest.Subnet{NetworkID: other, CIDR: "192.168.50.0/24"})
	s.AddPort(openstacktest.Port{
		NetworkID: other, DeviceID: "server-of-a", DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet, Address: "192.168.50.11"}},
	})
	s.addPort("server-of-a", "10.0.1.1")
	s.addPort("server-of-a", "10.0.1.2")
	c.setNode(node("a", []string{"192.168.50.11", "10.0.1.2", "10.0.1.1"}, "10.244.1.0/24"))
	c.must(c.create("a", "10.244.1.0/24"))
	s.wantRoutes("10.244.1.0/24 via 10.0.1.2")
	if got := s.pairs("10.0.1.2"); !slices.Equal(got, []string{"10.244.1.0/24"}) {
		t.Errorf("the port may send from %v, want the pod CIDR", got)
	}
	// The route exists, whatever address is the first now.
	c.setNode(node("a", []string{"10.0.1.1", "10.0.1.2"}, "10.244.1.0/24"))
	if errs := c.reconcile(); len(errs) > 0 {
		t.Error(errs)
	}
	s.wantRoutes("10.244.1.0/24 via 10.0.1.2")
}

func TestCreateRoute_RouterIsFull_TakesWhatFitsInFewWrites(t *testing.T) {
	for name, row := range map[string]struct {
		limit  func(*site)
		advice string
	}{
		"setting": {
			func(s *site) { s.SetMaxRoutes(30) },
			"raise max_routes in neutron.conf, or delete routes that are unused",
		},
		"quota": {
			func(s *site) { s.SetNetworkQuota("router_route", 30) },
			"raise the quota of the project, or delete what is unused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			row.limit(s)
			c := newCluster(t, s, nil)
			wanted := c.addNodes(100)
			errs := c.createAll(wanted)
			failed := failures(errs)
			if len(failed) != 70 || len(s.Routes(s.router)) != 30 {
				t.Errorf("%d failed and the router has %d routes", len(failed),
					len(s.Routes(s.router)))
			}
			want := " (routes of router " + s.router + "); " + row.advice
			for _, k := range failed {
				// The client of the provider names the service.
				if text := errs[k].Error(); !strings.HasPrefix(text, "OpenStack: 4") ||
					!strings.HasSuffix(text, want) {
					t.Errorf("route %d failed with %q, want the cause and%s", k, text, want)
				}
			}
			if n := s.routerWrites(); n > 60 {
				t.Errorf("the router was written %d times", n)
			}
		})
	}
}

// Neutron counts the pairs that others have added, too (max_allowed_address_pair, 10 by default).
func TestCreateRoute_PortHasTheMostPairs_TextNamesTheOption(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	s.Inject(openstacktest.Fault{
		Operation: "port_update",
		Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
			return http.StatusBadRequest, []byte(`{"NeutronError": {
				"type": "AllowedAddressPairExhausted", "detail": "",
				"message": "The number of allowed address pair exceeds the maximum 10."}}`)
		},
	})
	const want = "OpenStack: 400 The number of allowed address pair exceeds the maximum 10 " +
		"(address pairs of the port of the next hop); raise max_allowed_address_pair in " +
		"neutron.conf, or remove pairs that are unused"
	if err := c.create("a", "10.244.1.0/24"); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestCreateRoute_OtherClientWritesFirst_IsPlannedAgain(t *testing.T) {
	s := newSite(t, withoutAtomic())
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	s.addPort("other", "10.0.0.66")
	c.list()
	// Another client writes the router after fxccm has read it.
	s.setRoutes("192.168.0.0/16 via 10.0.0.66")
	s.ForgetCalls()
	c.must(c.create("a", "10.244.1.0/24"))
	s.wantRoutes("10.244.1.0/24 via 10.0.0.11", "192.168.0.0/16 via 10.0.0.66")
	s.wantCounts(map[string]int{"router_update": 2, "router_get": 1})
}

func TestCreateRoute_NoRevisions_ReadsRightBeforeItWrites(t *testing.T) {
	s := newSite(t, openstacktest.WithoutExtensions(extensionExtraRouteAtomic,
		"standard-attr-revisions"))
	c := newCluster(t, s, nil)
	wanted := c.addNodes(50)
	c.list()
	s.addPort("other", "10.0.0.66")
	s.setRoutes("192.168.0.0/16 via 10.0.0.66")
	errs := c.createAll(wanted)
	if failed := failures(errs); len(failed) > 0 {
		t.Fatalf("%d failed, the first with %v", len(failed), errs[failed[0]])
	}
	if got := len(s.Routes(s.router)); got != 51 {
		t.Errorf("the router has %d routes, want 51", got)
	}
}

// OCCM wrote a stale list back when the port failed.
func TestPort_RequestFails_NextPassRepairs(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, nil)
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
		s.addPort("other", "10.0.0.66")
		s.setRoutes("192.168.0.0/16 via 10.0.0.66", "192.169.0.0/16 via 10.0.0.66")

		heal := s.Inject(openstacktest.Fault{
			Operation: "port_update",
			Status:    http.StatusInternalServerError,
		})
		if err := c.create("a", "10.244.1.0/24"); err == nil {
			t.Error("the write of the port failed, but the creation succeeded")
		}
		// The route exists, but is not listed, so that the controller calls again.
		s.wantRoutes("192.168.0.0/16 via 10.0.0.66", "192.169.0.0/16 via 10.0.0.66",
			"10.244.1.0/24 via 10.0.0.11")
		if listed := c.list(); len(listed) > 0 {
			t.Errorf("a route without its address pair is listed: %v", listed)
		}
		heal()
		c.must(c.create("a", "10.244.1.0/24"))
		c.must(c.create("b", "10.244.2.0/24"))

		all := []string{
			"192.168.0.0/16 via 10.0.0.66", "192.169.0.0/16 via 10.0.0.66",
			"10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12",
		}
		c.removeNode("a")
		listed := c.list()["10.244.1.0/24 via 10.0.0.11"]
		heal = s.Inject(openstacktest.Fault{
			Operation: "port_update",
			Status:    http.StatusInternalServerError,
		})
		if err := c.DeleteRoute(t.Context(), "cluster", listed); err == nil {
			t.Error("the write of the port failed, but the deletion succeeded")
		}
		s.wantRoutes(all...)
		heal()
		// The port is written, and the router fails: the route stays listed, so that the controller
		// calls again.
		heal = s.Inject(openstacktest.Fault{
			Operation: "router_*", Match: isWrite,
			Status: http.StatusInternalServerError,
		})
		if err := c.DeleteRoute(t.Context(), "cluster", listed); err == nil {
			t.Error("the write of the router failed, but the deletion succeeded")
		}
		heal()
		s.wantRoutes(all...)
		listed = c.list()["10.244.1.0/24 via 10.0.0.11"]
		if listed == nil {
			t.Fatal("the route is not listed")
		}
		c.must(c.DeleteRoute(t.Context(), "cluster", listed))
		s.wantRoutes(slices.Delete(all, 2, 3)...)
	})
}

func TestDeleteRoute_InterruptedAndNodeComesBack_RouteIsCompleted(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) {
			s := newSite(t)
			c := newCluster(t, s, nil)
			const a, b = "10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12"
			nodeA := node("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			nodeB := node("b", []string{"10.0.0.12"}, "10.244.2.0/24")
			s.addPort("server-of-a", "10.0.0.11")
			s.addPort("server-of-b", "10.0.0.12")
			c.setNode(nodeA)
			c.setNode(nodeB)
			c.must(c.create("a", "10.244.1.0/24"))
			c.must(c.create("b", "10.244.2.0/24"))
			c.removeNode("a")
			heal := s.Inject(openstacktest.Fault{
				Operation: "router_*", Match: isWrite, Status: http.StatusInternalServerError,
			})
			if err := c.DeleteRoute(t.Context(), "cluster", c.list()[a]); err == nil {
				t.Fatal("the write of the router failed, but the deletion succeeded")
			}
			heal()
			s.wantRoutes(a, b)
			if got := s.pairs("10.0.0.11"); len(got) != 0 {
				t.Fatalf("the deletion did not get to the router: the port may send from %v", got)
			}

			if restart {
				c = newCluster(t, s, nil)
				c.setNode(nodeB)
			}
			c.setNode(nodeA)
			if listed := c.list(); listed[a] != nil || listed[b] == nil {
				t.Errorf("listed are %v, want only the route with an address pair", listed)
			}
			c.must(c.create("a", "10.244.1.0/24"))
			if listed := c.list(); len(listed) != 2 {
				t.Errorf("after the creation are listed %v, want both routes", listed)
			}
			s.wantRoutes(a, b)
			if got := s.pairs("10.0.0.11"); !slices.Equal(got, []string{"10.244.1.0/24"}) {
				t.Errorf("the port may send from %v, want the pod CIDR", got)
			}
		})
	}
}

func isWrite(c openstacktest.Call) bool { return c.Method == http.MethodPut }

func TestRouterWrite_ResponseIsLost_RouterIsReadAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, nil)
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		s.Inject(openstacktest.Fault{
			Operation: "router_*", Match: isWrite, AfterEffect: true,
			Status: http.StatusBadGateway, Times: 1,
		})
		if err := c.create("a", "10.244.1.0/24"); err == nil {
			t.Error("the response of the router was lost, but the creation succeeded")
		}
		s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
		c.must(c.create("a", "10.244.1.0/24"))
		if writes := c.routerWrites(); writes != 1 {
			t.Errorf("the router was written %d times, want 1: the route exists", writes)
		}
		if len(c.list()) != 1 {
			t.Error("the route is not listed")
		}
	})
}

// OCCM treated a transient error as "not supported".
func TestCloudDownAtStart_IsAnError_AndNeverUnsupported(t *testing.T) {
	s, clock := newSite(t), fakeClock()
	c := newCluster(t, s, clock)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	heal := s.Inject(openstacktest.Fault{
		Operation: "network_extension_*",
		Status:    http.StatusServiceUnavailable,
	})
	for range 50 {
		if _, err := c.ListRoutes(t.Context(), "cluster"); !errors.Is(err, capability.ErrUnknown) ||
			says(err, "has neither the extension") {
			t.Fatalf("the error is %v", err)
		}
		if err := c.create("a", "10.244.1.0/24"); !errors.Is(err, capability.ErrUnknown) {
			t.Fatalf("the error is %v", err)
		}
	}
	s.wantCounts(map[string]int{"network_extension_list": 1})
	heal()
	clock.Step(10 * time.Second)
	c.must(c.create("a", "10.244.1.0/24"))
	if len(c.list()) != 1 {
		t.Error("the route is not listed")
	}
}

func TestNoExtraRoutes_EveryCall_IsAnError(t *testing.T) {
	s, clock := newSite(t, openstacktest.WithoutExtensions("extraroute")), fakeClock()
	c := newCluster(t, s, clock)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	for range 3 {
		_, err := c.ListRoutes(t.Context(), "cluster")
		for _, err := range []error{
			err, c.create("a", "10.244.1.0/24"),
			c.DeleteRoute(t.Context(), "cluster", routeTo("a", "10.244.1.0/24")),
		} {
			if !says(err, "Neutron: the cloud has neither the extension extraroute nor "+
				"extraroute-atomic (option router-id of cloud.conf); enable one in the cloud, or "+
				"remove the option") {
				t.Errorf("the error is %v", err)
			}
		}
	}
	s.wantCounts(map[string]int{"network_extension_list": 1, "router_get": 0})
	// An operator enables the extension, without a restart.
	c.must(s.SetExtension("extraroute", true))
	clock.Step(capability.DefaultLife)
	c.must(c.create("a", "10.244.1.0/24"))
}

func TestNodesNotSynced_EveryCall_IsAnError(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.synced = false
	s.setRoutes("10.244.1.0/24 via 10.0.0.99")
	_, err := c.ListRoutes(t.Context(), "cluster")
	for _, err := range []error{
		err, c.create("a", "10.244.1.0/24"),
		c.DeleteRoute(t.Context(), "cluster", routeTo("", "10.244.1.0/24")),
	} {
		if !says(err, "Kubernetes: the nodes are not synced yet; retrying") {
			t.Errorf("the error is %v", err)
		}
	}
	s.wantRoutes("10.244.1.0/24 via 10.0.0.99")
}

func TestCreateRoute_InvalidRoute_ErrorNamesTheReason(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("v4", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.setNode(node("nowhere", []string{"10.0.0.12"}, "10.244.2.0/24"))
	for text, err := range map[string]error{
		`Kubernetes: the pod CIDR "10.244" is not a CIDR; correct that of the node`: c.create("v4",
			"10.244"),
		"Kubernetes: node v4 has no InternalIP of family IPv6 for pod CIDR fd00:1::/64; give its " +
			"server an address of this family": c.create("v4", "fd00:1::/64"),
		`Kubernetes: node "ghost" not found; retrying`: c.create("ghost", "10.244.1.0/24"),
		"Neutron: no port has the address of the next hop 10.0.0.12 on the networks of router " +
			s.router + " (option router-id of cloud.conf); connect the router to the network of " +
			"the node, or correct the option": c.create("nowhere", "10.244.2.0/24"),
	} {
		wantText(t, err, text)
	}
	c.must(s.DeleteRouter(s.router))
	if err := newCluster(t, s, nil).create("v4", "10.244.1.0/24"); err == nil {
		t.Error("a cluster without nodes creates a route")
	}
	other := newCluster(t, s, nil)
	if _, err := other.ListRoutes(t.Context(), "cluster"); err == nil ||
		!strings.HasSuffix(err.Error(), "404 Router "+s.router+
			" could not be found (option router-id of cloud.conf); correct it") {
		t.Errorf("without the router the error is %v", err)
	}
	s.wantRoutes()
}

func TestForeignRoutes_AreNeitherListedNorTouched(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, nil)
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		s.addPort("other", "10.0.0.66")
		s.setRoutes("10.244.1.0/24 via 10.0.0.66", "10.244.9.0/24 via 10.0.0.66")
		if listed := c.list(); len(listed) != 0 {
			t.Errorf("listed are %v", listed)
		}
		if err := c.create("a", "10.244.1.0/24"); !says(err, conflicts) {
			t.Errorf("the creation of a route beside a foreign one returns %v", err)
		}
		if got := s.pairs("10.0.0.11"); len(got) != 0 {
			t.Errorf("after a refused creation, the port has the pairs %v", got)
		}
		foreign := &cloudprovider.Route{
			Name:            "10.244.9.0/24 via 10.0.0.66",
			DestinationCIDR: "10.244.9.0/24", Blackhole: true,
		}
		if err := c.DeleteRoute(t.Context(), "cluster", foreign); !says(err, isForeign) {
			t.Errorf("the deletion of a foreign route returns %v", err)
		}
		s.wantRoutes("10.244.1.0/24 via 10.0.0.66", "10.244.9.0/24 via 10.0.0.66")
		if n := s.routerWrites(); n != 0 {
			t.Errorf("the router was written %d times", n)
		}
	})
}

func TestForeignRouteToTheSameDestination_CreatedMeanwhile_OursIsRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, fakeClock())
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
		s.addPort("other", "10.0.0.66")
		c.must(c.create("b", "10.244.2.0/24"))
		s.setRoutes("10.244.2.0/24 via 10.0.0.12", "10.244.1.0/24 via 10.0.0.66")
		if err := c.create("a", "10.244.1.0/24"); !says(err, conflicts) {
			t.Errorf("the error is %v", err)
		}
		s.wantRoutes("10.244.2.0/24 via 10.0.0.12", "10.244.1.0/24 via 10.0.0.66")
	})
}

// A stranger's route is in the pods' range, and its next hop looks like a deleted node: no server
// has the address. No fact shows that the cluster wrote it.
func TestStrangersRoute_LooksLikeALeftover_IsLeftAlone(t *testing.T) {
	virtual := openstacktest.AddressPair{Address: "10.0.9.50"}
	pods := openstacktest.AddressPair{Address: "10.244.200.0/24"}
	unbound := func(s *site, pairs ...openstacktest.AddressPair) {
		s.AddPort(openstacktest.Port{
			NetworkID: s.network, AllowedPairs: pairs,
			FixedIPs: []openstacktest.FixedIP{{SubnetID: s.v4, Address: "10.0.9.50"}},
		})
	}
	for name, prepare := range map[string]func(*site){
		"no port has the address": func(*site) {},
		"a port without a device": func(s *site) { unbound(s) },
		"a port without a device that may send from the range": func(s *site) {
			unbound(s, pods)
		},
		"the virtual address of two firewalls": func(s *site) {
			unbound(s)
			for i, firewall := range []string{"firewall-1", "firewall-2"} {
				s.addPort(firewall, fmt.Sprintf("10.0.9.%d", 51+i))
				s.changePort(firewall, func(p *openstacktest.Port) {
					p.AllowedPairs = []openstacktest.AddressPair{virtual, pods}
				})
			}
		},
		"a server": func(s *site) { s.addPort("other", "10.0.9.50") },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *site) {
				clock, lines := fakeClock(), &journal{}
				c := newCluster(t, s, clock)
				c.logger = lines.logger()
				c.start()
				c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
				c.addNode("b", []string{"10.0.0.12"}, "10.244.200.0/24")
				prepare(s)
				const theirs = "10.244.200.0/24 via 10.0.9.50"
				s.setRoutes(theirs)
				before := s.strangersPorts()
				for range 3 {
					errs := c.reconcile()
					if len(errs) != 1 || !says(errs[0], conflicts) ||
						!says(errs[0], "the one via 10.0.9.50 does not belong to this cluster") {
						t.Errorf("the errors are %v", errs)
					}
					clock.Step(5 * time.Minute)
				}
				if listed := c.list(); len(listed) != 1 {
					t.Errorf("listed are %v", listed)
				}
				if err := c.DeleteRoute(t.Context(), "cluster", &cloudprovider.Route{
					Name: theirs, DestinationCIDR: "10.244.200.0/24", Blackhole: true,
				}); !says(err, isForeign) {
					t.Errorf("the deletion returns %v", err)
				}
				c.removeNode("b")
				c.reconcile()
				s.wantRoutes(theirs, "10.244.1.0/24 via 10.0.0.11")
				if now := s.strangersPorts(); !reflect.DeepEqual(now, before) {
					t.Errorf("the strangers' ports are %+v, were %+v", now, before)
				}
				left := lines.with("Leaving routes of the router alone")
				if len(left) != 1 || !strings.Contains(left[0], theirs) {
					t.Errorf("the log says %v, want one line with %s", left, theirs)
				}
			})
		})
	}
}

// The routes of a former process, of OCCM and of this process are the same: the next hop is a
// node's address when the routes are first listed, so the cluster deletes them with their nodes.
func TestRouteOfANodeThatGoesWithItsServer_OnlyItsClusterDeletesIt(t *testing.T) {
	const a, b, theirs = "10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12",
		"10.244.3.0/24 via 10.0.0.13"
	for name, write := range map[string]func(*cluster){
		"written by this process": func(c *cluster) { c.reconcile() },
		"written by a former process": func(c *cluster) {
			c.reconcile()
			c.start()
		},
		"written by OCCM": func(c *cluster) {
			c.site.setRoutes(a, b)
			for server, cidr := range map[string]string{
				"server-of-a": "10.244.1.0/24", "server-of-b": "10.244.2.0/24",
			} {
				c.changePort(server, func(p *openstacktest.Port) {
					p.AllowedPairs = []openstacktest.AddressPair{{Address: cidr}}
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			c, other := newCluster(t, s, nil), newCluster(t, s, nil)
			c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
			other.addNode("c", []string{"10.0.0.13"}, "10.244.3.0/24")
			write(c)
			for _, one := range []*cluster{c, other} {
				if errs := one.reconcile(); len(errs) > 0 {
					t.Fatal(errs)
				}
			}
			c.removeNode("a")
			s.deletePort("server-of-a")
			if errs := other.reconcile(); len(errs) > 0 {
				t.Error(errs)
			}
			s.wantRoutes(a, b, theirs)
			if errs := c.reconcile(); len(errs) > 0 {
				t.Error(errs)
			}
			s.wantRoutes(b, theirs)
		})
	}
}

func TestNodeDeleted_ServerStillRuns_RouteIsOwnedUntilARestart(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.must(c.create("a", "10.244.1.0/24"))
	c.removeNode("a")
	restarted := newCluster(t, s, nil)
	if listed := restarted.list(); len(listed) != 0 {
		t.Errorf("after a restart the route is foreign, but listed are %v", listed)
	}
	r := c.list()["10.244.1.0/24 via 10.0.0.11"]
	if r == nil || r.TargetNode != "a" {
		t.Fatalf("listed is %+v", r)
	}
	c.must(c.DeleteRoute(t.Context(), "cluster", r))
	s.wantRoutes()
	if got := s.pairs("10.0.0.11"); len(got) != 0 {
		t.Errorf("the server that has left the cluster may still send from %v", got)
	}
}

// Another cluster with the same pod CIDRs gets the address before the route is deleted.
func TestNodeDeleted_StrangersServerHasItsAddress_KeepsItsPair(t *testing.T) {
	const address, pods = "10.0.0.11", "10.244.1.0/24"
	takeAddress := func(s *site) {
		s.deletePort("server-of-a")
		s.addPort("stranger", address)
		s.changePort("stranger", func(p *openstacktest.Port) {
			p.AllowedPairs = []openstacktest.AddressPair{{Address: pods}}
		})
	}
	for name, leave := range map[string]func(*cluster, *clocktesting.FakeClock){
		"after the node is gone": func(c *cluster, _ *clocktesting.FakeClock) {
			c.removeNode("a")
			takeAddress(c.site)
		},
		"after a restart": func(c *cluster, _ *clocktesting.FakeClock) {
			c.start()
			c.mustReconcile()
			c.removeNode("a")
			takeAddress(c.site)
		},
		"before the node is gone, and its ports are looked at": func(
			c *cluster, clock *clocktesting.FakeClock,
		) {
			takeAddress(c.site)
			clock.Step(pairsAge + time.Minute)
			c.mustReconcile()
			c.removeNode("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *site) {
				clock := fakeClock()
				c := newCluster(t, s, clock)
				c.addNode("a", []string{address}, pods)
				c.mustReconcile()
				leave(c, clock)
				c.mustReconcile()
				s.wantRoutes()
				if got := s.pairs(address); !slices.Equal(got, []string{pods}) {
					t.Errorf("the stranger's server may send from %v, want %s", got, pods)
				}
			})
		})
	}
}

func TestNodeChangesItsAddress_TheOldRouteIsABlackhole(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.must(c.create("a", "10.244.1.0/24"))
	// The old address is still its server's.
	c.addPort("server-of-a", "10.0.0.21")
	c.setNode(node("a", []string{"10.0.0.21"}, "10.244.1.0/24"))
	r := c.list()["10.244.1.0/24 via 10.0.0.11"]
	if r == nil || !r.Blackhole || !r.EnableNodeAddresses {
		t.Fatalf("listed is %+v", r)
	}
	// Even if the controller did not wait, the creation would replace the old route.
	c.must(c.create("a", "10.244.1.0/24"))
	s.wantRoutes("10.244.1.0/24 via 10.0.0.21")
	c.must(c.DeleteRoute(t.Context(), "cluster", r))
	s.wantRoutes("10.244.1.0/24 via 10.0.0.21")

	// A node without an address for a moment must not lose its route.
	c.list()
	c.setNode(node("a", nil, "10.244.1.0/24"))
	if r := c.list()["10.244.1.0/24 via 10.0.0.21"]; r == nil || r.Blackhole ||
		r.TargetNode != "a" {
		t.Errorf("listed is %+v", r)
	}
}

func TestAddressPairs_AreWrittenOnlyWhereTheyAreNeeded(t *testing.T) {
	t.Run("port security off", func(t *testing.T) {
		s := newSite(t)
		c := newCluster(t, s, nil)
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		s.changePort("server-of-a", func(p *openstacktest.Port) {
			p.NoPortSecurity, p.SecurityGroups = true, []string{}
		})
		c.must(c.create("a", "10.244.1.0/24"))
		s.wantCounts(map[string]int{"port_update": 0})
	})
	t.Run("extension off", func(t *testing.T) {
		s := newSite(t, openstacktest.WithoutExtensions(extensionAddressPairs))
		c := newCluster(t, s, nil)
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		c.must(c.create("a", "10.244.1.0/24"))
		c.must(c.DeleteRoute(t.Context(), "cluster", c.list()["10.244.1.0/24 via 10.0.0.11"]))
		s.wantCounts(map[string]int{"port_update": 0, "port_list": 0, "port_get": 0})
	})
	t.Run("covered", func(t *testing.T) {
		s := newSite(t)
		c := newCluster(t, s, nil)
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		s.changePort("server-of-a", func(p *openstacktest.Port) {
			p.AllowedPairs = []openstacktest.AddressPair{{Address: "10.244.0.0/16"}}
		})
		c.must(c.create("a", "10.244.1.0/24"))
		c.must(c.DeleteRoute(t.Context(), "cluster", c.list()["10.244.1.0/24 via 10.0.0.11"]))
		s.wantCounts(map[string]int{"port_update": 0})
	})
}

func TestAddressPairs_RemovedByOthersOrWithThePort_AreBackWithinTenMinutes(t *testing.T) {
	for name, lose := range map[string]func(*cluster){
		"emptied": func(s *cluster) {
			s.changePort("server-of-a", func(p *openstacktest.Port) { p.AllowedPairs = nil })
		},
		"port replaced": func(s *cluster) {
			for _, p := range s.site.Cloud.Ports() {
				if p.DeviceID == "server-of-a" {
					s.must(s.DeletePort(p.ID))
				}
			}
			s.addPort("server-of-a", "10.0.0.11")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newSite(t), fakeClock()
			c := newCluster(t, s, clock)
			c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			c.reconcile()
			for range 2 { // what was repaired once can be lost again
				clock.Step(time.Minute)
				c.reconcile()
				lose(c)
				for range 10 * 6 {
					clock.Step(10 * time.Second)
					if errs := c.reconcile(); len(errs) > 0 {
						t.Fatal(errs)
					}
				}
				if got := s.pairs("10.0.0.11"); !slices.Equal(got, []string{"10.244.1.0/24"}) {
					t.Errorf("after 10 minutes the port may send from %v, want the pod CIDR", got)
				}
				s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
			}
			s.wantCounts(map[string]int{"router_add_extraroutes": 1})
		})
	}
}

func TestAddressPairs_OtherClientWritesThePort_NothingIsLost(t *testing.T) {
	for name, options := range map[string][]openstacktest.Option{
		"revisions":    nil,
		"no revisions": {openstacktest.WithoutExtensions("standard-attr-revisions")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, options...)
			c := newCluster(t, s, nil)
			c.addNode("a", []string{"10.0.0.11", "fd00::11"}, "10.244.1.0/24", "fd00:1::/64")
			// Right before the first write another client adds a pair.
			if name == "revisions" {
				s.Inject(openstacktest.Fault{
					Operation: "port_list", Times: 1, Skip: 1,
					Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
						return status, []byte(strings.Replace(string(body), `"revision_number":`,
							`"revision_number":9`, 1))
					},
				})
			}
			s.changePort("server-of-a", func(p *openstacktest.Port) {
				p.AllowedPairs = []openstacktest.AddressPair{{Address: "10.9.9.9"}}
			})
			errs := c.createAll([]*cloudprovider.Route{
				routeTo("a", "10.244.1.0/24"), routeTo("a", "fd00:1::/64"),
			})
			if failed := failures(errs); len(failed) > 0 {
				t.Fatal(errs)
			}
			got := s.pairs("10.0.0.11")
			slices.Sort(got)
			if !slices.Equal(got, []string{"10.244.1.0/24", "10.9.9.9", "fd00:1::/64"}) {
				t.Errorf("the port has %v", got)
			}
			if name == "revisions" && !slices.ContainsFunc(s.Calls(),
				func(c openstacktest.Call) bool {
					return c.Status == http.StatusPreconditionFailed
				}) {
				t.Error("no write had a stale revision, so the test proves nothing")
			}
		})
	}
}

func TestCreateRoute_CallerCanceled_OthersGetTheirRoutes(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	wanted := c.addNodes(10)
	c.list()
	arrived := s.hang("router_add_extraroutes")
	ctx, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- c.CreateRoute(ctx, "cluster", "", wanted[0]) }()
	arrived()
	others := make(chan []error, 1)
	go func() { others <- c.createAll(wanted[1:]) }()
	// The write hangs, and ends only because its only caller is canceled.
	giveUp()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled caller gets %v", err)
	}
	if failed := failures(<-others); len(failed) > 0 {
		t.Errorf("%d others failed", len(failed))
	}
	if got := len(s.Routes(s.router)); got != 9 {
		t.Errorf("the router has %d routes", got)
	}
}

func TestClose_HangingRequest_IsCanceled(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	arrived := s.hang("router_add_extraroutes")
	done := make(chan error, 1)
	go func() { done <- c.create("a", "10.244.1.0/24") }()
	arrived()
	c.Close()
	if err := <-done; err == nil {
		t.Error("the route was created by a write that hangs")
	}
	if err := c.create("a", "10.244.1.0/24"); !errors.Is(err, errClosed) {
		t.Errorf("after Close the error is %v", err)
	}
}

func TestListRoutes_Canceled_ReturnsAtOnce(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	arrived := s.hang("router_get")
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.ListRoutes(ctx, "cluster")
			done <- err
		}()
	}
	arrived()
	giveUp()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestDeleteRoute_OnePortHangs_TheOthersWaitForItOnlyAWhile(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	for i, err := range c.createAll(c.addNodes(2)) {
		if err != nil {
			t.Fatalf("route %d: %v", i, err)
		}
	}
	var listed []*cloudprovider.Route
	for _, r := range c.list() {
		listed = append(listed, r)
	}
	s.ForgetCalls()
	arrived := s.hang("port_update")
	ctx, giveUp := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() { slow <- c.DeleteRoute(ctx, "cluster", listed[0]) }()
	arrived()
	quick := make(chan error, 1)
	go func() { quick <- c.DeleteRoute(t.Context(), "cluster", listed[1]) }()
	if err := <-quick; err != nil {
		t.Error(err)
	}
	giveUp()
	if err := <-slow; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled caller gets %v", err)
	}
	if got := len(s.Routes(s.router)); got != 1 {
		t.Errorf("the router has %d routes", got)
	}
}

func TestCreateRoute_OtherClientUndoesIt_IsAnError(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	s.Inject(openstacktest.Fault{
		Operation: "router_add_extraroutes",
		Rewrite: func(_ openstacktest.Call, status int, _ []byte) (int, []byte) {
			return status, []byte(`{"router": {"id": "` + s.router + `", "routes": []}}`)
		},
	})
	wantText(t, c.create("a", "10.244.1.0/24"),
		"Neutron: other clients keep changing router "+s.router+"; retrying")
	s.wantCounts(map[string]int{"router_add_extraroutes": maxRounds})
}

func TestInvalidResponses_AreErrors(t *testing.T) {
	for operation, body := range map[string]string{
		"network_extension_list": `{"extensions": []}`,
		"router_get":             `{}`,
		"port_list":              `<html>`,
		"port_update":            `{"port": null}`,
		"router_add_extraroutes": `{"router": {"routes": []}}`,
	} {
		t.Run(operation, func(t *testing.T) {
			s := newSite(t)
			c := newCluster(t, s, nil)
			c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			heal := s.Inject(openstacktest.Fault{
				Operation: operation,
				Rewrite: func(_ openstacktest.Call, status int, _ []byte) (int, []byte) {
					return status, []byte(body)
				},
			})
			if err := c.create("a", "10.244.1.0/24"); err == nil {
				t.Error("the route was created")
			} else {
				t.Log(err)
			}
			heal()
			waittest.Until(t, "the failure is forgotten and the route created",
				func() error { return c.create("a", "10.244.1.0/24") })
			s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
		})
	}
}
