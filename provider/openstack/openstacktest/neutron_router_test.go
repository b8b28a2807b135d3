package openstacktest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
)

func TestRouter_HasGatewayAndInterfaces(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	router, err := routers.Get(t.Context(), client, at.router).Extract()
	if err != nil {
		t.Fatal(err)
	}
	gateway := router.GatewayInfo
	if gateway.NetworkID != at.external ||
		gateway.ExternalFixedIPs[0].IPAddress != "203.0.113.2" {
		t.Errorf("gateway %+v", gateway)
	}
	// The project sees its interface, but not the gateway's port.
	var owners []string
	for _, port := range s.Ports() {
		owners = append(owners, port.DeviceOwner)
	}
	if !slices.Equal(owners, []string{"network:router_gateway", "network:router_interface"}) {
		t.Errorf("ports of %q", owners)
	}
	askNeutron(t, s, http.MethodGet, "ports?device_id="+at.router+"&fields=device_owner", "").
		is(200, `{"ports":[{"device_owner":"network:router_interface"}]}`)
}

func TestRoutes_TooMany_AreRefused(t *testing.T) {
	s := start(t)
	at := newSite(s)
	two := `{"router":{"routes":[{"destination":"10.9.0.0/24","nexthop":"10.0.0.5"},{"destination":"10.9.1.0/24","nexthop":"10.0.0.5"}]}}`
	s.SetMaxRoutes(1)
	askNeutron(t, s, http.MethodPut, "routers/"+at.router, two).refuses(400, "RoutesExhausted",
		"The number of routes exceeds the maximum 1.")
	s.SetMaxRoutes(0)
	s.SetNetworkQuota("router_route", 1)
	askNeutron(t, s, http.MethodPut, "routers/"+at.router+"/add_extraroutes", two).refuses(409,
		"OverQuota", "router_route")
	s.SetNetworkQuota("router_route", 2)
	askNeutron(t, s, http.MethodPut, "routers/"+at.router, two).succeeds(200, "router")
}

// Each writer adds its own route. No route is lost when they run in parallel.
func TestExtraRoutes_InParallel_AreAllAdded(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	const writers = 40
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			routes := []routers.Route{{
				DestinationCIDR: fmt.Sprintf("10.9.%d.0/24", i),
				NextHop:         "10.0.0.5",
			}}
			if _, err := extraroutes.Add(t.Context(), client, at.router,
				extraroutes.Opts{Routes: &routes}).Extract(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := len(s.Routes(at.router)); got != writers {
		t.Errorf("%d routes of %d writers", got, writers)
	}
}

// All writers put a list for the same revision, and one succeeds.
func TestRoutes_PutInParallelForOneRevision_OneSucceeds(t *testing.T) {
	s := start(t)
	at := newSite(s)
	revision := s.network.Routers.Snapshot()[0].RevisionNumber
	token := s.Credentials().Token
	var won, lost atomic.Int32
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			got, err := trySend(t, s, http.MethodPut, "/networking/v2.0/routers/"+at.router,
				fmt.Sprintf(
					`{"router":{"routes":[{"destination":"10.9.%d.0/24","nexthop":"10.0.0.5"}]}}`,
					i),
				"X-Auth-Token", token, "If-Match", fmt.Sprint("revision_number=", revision))
			switch {
			case err != nil:
				t.Error(err)
			case got.status == http.StatusOK:
				won.Add(1)
			case got.status == http.StatusPreconditionFailed:
				lost.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 || lost.Load() != 19 || len(s.Routes(at.router)) != 1 {
		t.Errorf("%d won, %d lost, routes %v", won.Load(), lost.Load(), s.Routes(at.router))
	}
}

func TestDeleteRouter_DeletesItsPorts(t *testing.T) {
	s := start(t)
	at := newSite(s)
	if err := s.DeleteRouter(at.router); err != nil {
		t.Fatal(err)
	}
	if len(s.Ports()) != 0 || len(s.network.Routers.Snapshot()) != 0 || s.Routes(at.router) != nil {
		t.Errorf("left: %v %v", s.Ports(), s.network.Routers.Snapshot())
	}
	if err := s.SetRoutes(at.router); err == nil || !strings.Contains(err.Error(), at.router) {
		t.Errorf("routes of a deleted router: %v", err)
	}
}
