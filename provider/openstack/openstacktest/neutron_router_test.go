package openstacktest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
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
	if gateway.NetworkID != at.external || !*gateway.EnableSNAT ||
		gateway.ExternalFixedIPs[0].IPAddress != "203.0.113.2" {
		t.Errorf("gateway %+v", gateway)
	}
	// The project sees its interface, and not the gateway's port.
	var owners []string
	for _, port := range s.Ports() {
		owners = append(owners, port.DeviceOwner)
	}
	if !slices.Equal(owners, []string{OwnerInterface, OwnerGateway}) {
		t.Errorf("ports of %q", owners)
	}
	askNeutron(t, s, http.MethodGet, "ports?device_id="+at.router+"&fields=device_owner", "").
		is(200, `{"ports":[{"device_owner":"network:router_interface"}]}`)
}

func TestRouter_InterfacesAddedAndRemoved(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	second := s.AddSubnet(Subnet{NetworkID: at.internal, CIDR: "10.1.0.0/24"})
	before := s.Routers()[0].RevisionNumber
	added, err := routers.AddInterface(t.Context(), client, at.router,
		routers.AddInterfaceOpts{SubnetID: second}).Extract()
	if err != nil || added.SubnetID != second {
		t.Fatalf("%+v, %v", added, err)
	}
	if s.Routers()[0].RevisionNumber <= before {
		t.Error("the router's revision did not grow")
	}
	third := s.AddSubnet(Subnet{NetworkID: at.internal, CIDR: "10.2.0.0/24"})
	port := s.AddPort(Port{NetworkID: at.internal, FixedIPs: []FixedIP{{SubnetID: third}}})
	if _, err := routers.AddInterface(t.Context(), client, at.router,
		routers.AddInterfaceOpts{PortID: port}).Extract(); err != nil {
		t.Fatal(err)
	}
	got, want := s.Routers()[0].Subnets, []string{at.subnet, second, third}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("subnets %q, want %q", got, want)
	}
	if _, err := routers.RemoveInterface(t.Context(), client, at.router,
		routers.RemoveInterfaceOpts{SubnetID: second}).Extract(); err != nil {
		t.Fatal(err)
	}
	if got := s.Routers()[0].Subnets; slices.Contains(got, second) {
		t.Errorf("subnets %q", got)
	}
}

func TestRoutes_Put(t *testing.T) {
	s := start(t)
	at := newSite(s)
	put := func(routes string) exchange {
		return askNeutron(t, s, http.MethodPut, "routers/"+at.router,
			`{"router":{"routes":`+routes+`}}`)
	}
	put(
		`[{"destination":"10.9.0.0/24","nexthop":"10.0.0.5"},{"destination":"10.9.1.0/24","nexthop":"203.0.113.9"}]`).succeeds(200, "router")
	want := []Route{
		{Destination: "10.9.0.0/24", NextHop: "10.0.0.5"},
		{Destination: "10.9.1.0/24", NextHop: "203.0.113.9"},
	}
	if got := s.Routes(at.router); !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
	for name, c := range map[string]struct{ routes, kind, text string }{
		"next hop elsewhere":     {`[{"destination":"10.9.0.0/24","nexthop":"10.8.0.5"}]`, "InvalidRoutes", "the nexthop is not connected with router"},
		"next hop is the router": {`[{"destination":"10.9.0.0/24","nexthop":"10.0.0.1"}]`, "InvalidRoutes", "the nexthop is used by router"},
		"twice":                  {`[{"destination":"10.9.0.0/24","nexthop":"10.0.0.5"},{"destination":"10.9.0.0/24","nexthop":"10.0.0.5"}]`, "HTTPBadRequest", "Duplicate hostroute '{'destination': '10.9.0.0/24', 'nexthop': '10.0.0.5'}'"},
		"no CIDR":                {`[{"destination":"x","nexthop":"10.0.0.5"}]`, "HTTPBadRequest", "'x' is not a valid CIDR"},
		"host bits":              {`[{"destination":"10.9.0.1/24","nexthop":"10.0.0.5"}]`, "HTTPBadRequest", "'10.9.0.0/24' is recommended"},
		"no address":             {`[{"destination":"10.9.0.0/24","nexthop":"x"}]`, "HTTPBadRequest", "'x' is not a valid IP address"},
		"a key is missing":       {`[{"destination":"10.9.0.0/24"}]`, "HTTPBadRequest", "Expected keys"},
		"no list":                {`7`, "HTTPBadRequest", "Invalid data format for hostroute"},
	} {
		t.Run(name, func(t *testing.T) {
			put(c.routes).refuses(400, c.kind, c.text)
			if got := s.Routes(at.router); !slices.Equal(got, want) {
				t.Errorf("a refused change left %v", got)
			}
		})
	}
	put(`null`).succeeds(200, "router")
	if got := s.Routes(at.router); len(got) != 0 {
		t.Errorf("routes after null: %v", got)
	}
	askNeutron(t, s, http.MethodPost, "routers", `{"router":{"routes":[]}}`).refuses(400,
		"HTTPBadRequest", "'routes' not allowed in POST")
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

func TestExtraRoutes_AddAndRemove(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	list := func(routes ...routers.Route) extraroutes.Opts {
		return extraroutes.Opts{Routes: &routes}
	}
	one := routers.Route{DestinationCIDR: "10.9.1.0/24", NextHop: "10.0.0.5"}
	two := routers.Route{DestinationCIDR: "10.9.2.0/24", NextHop: "10.0.0.6"}
	other := routers.Route{DestinationCIDR: "10.9.1.0/24", NextHop: "10.0.0.7"}
	bad := routers.Route{DestinationCIDR: "10.9.3.0/24", NextHop: "192.0.2.1"}

	for _, c := range []struct {
		name    string
		add     []routers.Route
		remove  []routers.Route
		refused bool
		want    []Route
	}{
		{name: "one", add: []routers.Route{one}, want: []Route{{Destination: "10.9.1.0/24", NextHop: "10.0.0.5"}}},
		{
			name: "again and another", add: []routers.Route{one, two},
			want: []Route{
				{Destination: "10.9.1.0/24", NextHop: "10.0.0.5"},
				{Destination: "10.9.2.0/24", NextHop: "10.0.0.6"},
			},
		},
		{
			name: "a bad one spoils all", add: []routers.Route{other, bad}, refused: true,
			want: []Route{
				{Destination: "10.9.1.0/24", NextHop: "10.0.0.5"},
				{Destination: "10.9.2.0/24", NextHop: "10.0.0.6"},
			},
		},
		{name: "remove one and what is not there", remove: []routers.Route{two, bad}, want: []Route{{Destination: "10.9.1.0/24", NextHop: "10.0.0.5"}}},
		{
			name: "same destination", add: []routers.Route{other},
			want: []Route{
				{Destination: "10.9.1.0/24", NextHop: "10.0.0.5"},
				{Destination: "10.9.1.0/24", NextHop: "10.0.0.7"},
			},
		},
		{
			name:   "remove by both",
			remove: []routers.Route{{DestinationCIDR: "10.9.1.0/24", NextHop: "10.0.0.9"}},
			want: []Route{
				{Destination: "10.9.1.0/24", NextHop: "10.0.0.5"},
				{Destination: "10.9.1.0/24", NextHop: "10.0.0.7"},
			},
		},
	} {
		before := s.Routers()[0]
		var got *routers.Router
		var err error
		if c.add != nil {
			got, err = extraroutes.Add(t.Context(), client, at.router, list(c.add...)).Extract()
		} else {
			got, err = extraroutes.Remove(t.Context(), client, at.router,
				list(c.remove...)).Extract()
		}
		if c.refused {
			if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
				t.Errorf("%s: %v, want 400", c.name, err)
			}
		} else if err != nil || len(got.Routes) != len(c.want) {
			t.Errorf("%s: %v, %+v", c.name, err, got)
		}
		if routes := s.Routes(at.router); !slices.Equal(routes, c.want) {
			t.Errorf("%s: %v, want %v", c.name, routes, c.want)
		}
		changed := !slices.Equal(before.Routes, c.want)
		if grown := s.Routers()[0].RevisionNumber > before.RevisionNumber; grown != changed {
			t.Errorf("%s: the revision grew: %v, want %v", c.name, grown, changed)
		}
	}
}

func TestExtraRoutes_Forms(t *testing.T) {
	s := start(t)
	at := newSite(s)
	path := "routers/" + at.router + "/add_extraroutes"
	askNeutron(t, s, http.MethodPut, path,
		`{"router":{"routes":[{"destination":"x","nexthop":"10.0.0.5"}]}}`).refuses(400,
		"AddrFormatError", "invalid IPNetwork x")
	askNeutron(t, s, http.MethodPut, path,
		`{"router":{"routes":[{"destination":"10.9.0.0/24","nexthop":"x"}]}}`).refuses(400,
		"AddrFormatError", "valid IP address from 'x'")
	askNeutron(t, s, http.MethodPut, path, `{"routes":[]}`).refuses(400, "HTTPBadRequest",
		"Unable to find 'router'")
	askNeutron(t, s, http.MethodPut, "routers/none/add_extraroutes", `{}`).refuses(404,
		"RouterNotFound", "none")
	_ = s.SetExtension("extraroute-atomic", false)
	askNeutron(t, s, http.MethodPut, path, `{"router":{"routes":[]}}`).refuses(404, "HTTPNotFound",
		"")
}

func TestExtraRoutes_StaleRouteOfTheRouter_RefusesAllButItsRemoval(t *testing.T) {
	s := start(t)
	at := newSite(s)
	if err := s.SetRoutes(at.router,
		Route{Destination: "10.9.0.0/24", NextHop: "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	path := "routers/" + at.router
	askNeutron(t, s, http.MethodPut, path+"/add_extraroutes",
		`{"router":{"routes":[{"destination":"10.9.1.0/24","nexthop":"10.0.0.5"}]}}`).
		refuses(400, "InvalidRoutes", "192.0.2.1")
	askNeutron(t, s, http.MethodPut, path+"/remove_extraroutes",
		`{"router":{"routes":[{"destination":"10.9.0.0/24","nexthop":"192.0.2.1"}]}}`).
		succeeds(200, "router")
}

// Each writer adds a route of its own; in parallel, none is lost.
func TestExtraRoutes_InParallel_LoseNone(t *testing.T) {
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

// All writers put a list for the same revision; one wins.
func TestRoutes_PutInParallelForOneRevision_OneWins(t *testing.T) {
	s := start(t)
	at := newSite(s)
	revision := s.Routers()[0].RevisionNumber
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

func TestRouter_InUse_IsNotChanged(t *testing.T) {
	s := start(t)
	at := newSite(s)
	_ = s.SetRoutes(at.router, Route{Destination: "10.9.0.0/24", NextHop: "10.0.0.5"})
	path := "routers/" + at.router
	askNeutron(t, s, http.MethodPut, path+"/remove_router_interface",
		`{"subnet_id":"`+at.subnet+`"}`).
		refuses(409, "RouterInterfaceInUseByRoute", "required by one or more routes")
	_ = s.SetRoutes(at.router)
	port := s.AddPort(Port{NetworkID: at.internal})
	ip := s.AddFloatingIP(FloatingIP{NetworkID: at.external, PortID: port})
	askNeutron(t, s, http.MethodPut, path+"/remove_router_interface",
		`{"subnet_id":"`+at.subnet+`"}`).
		refuses(409, "RouterInterfaceInUseByFloatingIP", "")
	askNeutron(t, s, http.MethodPut, path, `{"router":{"external_gateway_info":null}}`).
		refuses(409, "RouterExternalGatewayInUseByFloatingIp",
			"required by one or more floating IPs")
	askNeutron(t, s, http.MethodDelete, path, "").refuses(409, "RouterInUse",
		"has ports still attached: ")
	if err := s.DeleteFloatingIP(ip); err != nil {
		t.Fatal(err)
	}
	askNeutron(t, s, http.MethodPut, path,
		`{"router":{"external_gateway_info":null}}`).succeeds(200, "router")
	askNeutron(t, s, http.MethodPut, path+"/remove_router_interface",
		`{"subnet_id":"`+at.subnet+`"}`).succeeds(200, "")
	askNeutron(t, s, http.MethodDelete, path, "").succeeds(204, "")
	if got := s.Ports(); len(got) != 1 || got[0].ID != port {
		t.Errorf("ports left: %+v", got)
	}
}

func TestRouter_InterfaceErrors(t *testing.T) {
	s := start(t)
	at := newSite(s)
	other := s.AddNetwork(Network{})
	overlapping := s.AddSubnet(Subnet{NetworkID: other, CIDR: "10.0.0.0/16"})
	noGateway := s.AddSubnet(Subnet{NetworkID: other, CIDR: "10.64.0.0/24", NoGateway: true})
	used := s.AddPort(Port{NetworkID: at.internal, DeviceID: "server"})
	for name, c := range map[string]struct {
		action, body string
		status       int
		kind, text   string
	}{
		"both":          {"add", `{"subnet_id":"a","port_id":"b"}`, 400, "BadRequest", "Cannot specify both subnet-id and port-id"},
		"neither":       {"add", `{}`, 400, "BadRequest", "Either subnet_id or port_id"},
		"there already": {"add", `{"subnet_id":"` + at.subnet + `"}`, 400, "BadRequest", "already has a port on subnet"},
		"overlap":       {"add", `{"subnet_id":"` + overlapping + `"}`, 400, "BadRequest", "overlaps with cidr"},
		"no gateway":    {"add", `{"subnet_id":"` + noGateway + `"}`, 400, "BadRequest", "must have a gateway IP"},
		"no subnet":     {"add", `{"subnet_id":"none"}`, 404, "SubnetNotFound", "none"},
		"port in use":   {"add", `{"port_id":"` + used + `"}`, 409, "PortInUse", "already has an attached device server"},
		"not there":     {"remove", `{"subnet_id":"` + overlapping + `"}`, 404, "RouterInterfaceNotFoundForSubnet", ""},
		"port not its":  {"remove", `{"port_id":"` + used + `"}`, 404, "RouterInterfaceNotFound", ""},
	} {
		t.Run(name, func(t *testing.T) {
			askNeutron(t, s, http.MethodPut, "routers/"+at.router+"/"+c.action+"_router_interface",
				c.body).refuses(c.status, c.kind, c.text)
		})
	}
	askNeutron(t, s, http.MethodPost, "routers",
		`{"router":{"external_gateway_info":{"network_id":"`+at.internal+`"}}}`).
		refuses(400, "BadRequest", "is not an external network")
	if got := len(s.Routers()); got != 1 {
		t.Errorf("%d routers", got)
	}
}

func TestDeleteRouter_FromOutside_TakesItsPorts(t *testing.T) {
	s := start(t)
	at := newSite(s)
	if err := s.DeleteRouter(at.router); err != nil {
		t.Fatal(err)
	}
	if len(s.Ports()) != 0 || len(s.Routers()) != 0 || s.Routes(at.router) != nil {
		t.Errorf("left: %v %v", s.Ports(), s.Routers())
	}
	if err := s.SetRoutes(at.router); err == nil || !strings.Contains(err.Error(), at.router) {
		t.Errorf("routes of a deleted router: %v", err)
	}
}
