package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

func routesBody(routes string) string { return `{"router":{"routes":[` + routes + `]}}` }

func routeTo(destination, nextHop string) string {
	return `{"destination":"` + destination + `","nexthop":"` + nextHop + `"}`
}

// routes are those of the router, in order of the alphabet: Neutron has no order of its own.
func (n *neutron) routes() []string {
	n.t.Helper()
	got := []string{}
	list, _ := n.get("/routers/$router?fields=routes", "router", "routes").([]any)
	for _, r := range list {
		route, _ := r.(project.Object)
		got = append(got, project.Text(route, "destination")+" "+project.Text(route, "nexthop"))
	}
	slices.Sort(got)
	return got
}

const (
	addRoutes    = "PUT /routers/$router/add_extraroutes"
	removeRoutes = "PUT /routers/$router/remove_extraroutes"
	putRouter    = "PUT /routers/$router"
)

// With extraroute-atomic, adding an existing route or removing a missing one is not an error.
// Routes are compared as texts. Two routes may have the same destination.
func TestRouterRoutes_AddedAndRemovedByName(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithIPv6())
	n.needs("extraroute-atomic")
	one, two := routeTo("10.244.0.0/24", "10.0.0.10"), routeTo("10.244.1.0/24", "10.0.0.11")
	for _, step := range []struct {
		what, request, routes string
		want                  []string
	}{
		{"two", addRoutes, one + "," + two, []string{"10.244.0.0/24 10.0.0.10", "10.244.1.0/24 10.0.0.11"}},
		{"an existing one", addRoutes, one, []string{"10.244.0.0/24 10.0.0.10", "10.244.1.0/24 10.0.0.11"}},
		{"one twice", addRoutes, two + "," + two, []string{"10.244.0.0/24 10.0.0.10", "10.244.1.0/24 10.0.0.11"}},
		{
			"a second to a destination", addRoutes, routeTo("10.244.1.0/24", "10.0.0.12"),
			[]string{
				"10.244.0.0/24 10.0.0.10", "10.244.1.0/24 10.0.0.11",
				"10.244.1.0/24 10.0.0.12",
			},
		},
		{
			"with another next hop, which is not there", removeRoutes,
			routeTo("10.244.0.0/24", "10.0.0.99") + "," + two,
			[]string{"10.244.0.0/24 10.0.0.10", "10.244.1.0/24 10.0.0.12"},
		},
		{
			"all, and one that is not there", removeRoutes,
			one + "," + routeTo("10.244.1.0/24", "10.0.0.12") + "," +
				routeTo("10.9.0.0/24", "10.0.0.9"),
			[]string{},
		},
		{"one within another", addRoutes, one + "," + routeTo("10.244.0.0/16", "10.0.0.12"), []string{"10.244.0.0/16 10.0.0.12", "10.244.0.0/24 10.0.0.10"}},
		{
			"within a subnet, and all", addRoutes,
			routeTo("10.0.0.0/24", "10.0.0.9") + "," + routeTo("0.0.0.0/0", "10.0.0.9"),
			[]string{
				"0.0.0.0/0 10.0.0.9", "10.0.0.0/24 10.0.0.9", "10.244.0.0/16 10.0.0.12",
				"10.244.0.0/24 10.0.0.10",
			},
		},
		{"none", addRoutes, "", []string{"0.0.0.0/0 10.0.0.9", "10.0.0.0/24 10.0.0.9", "10.244.0.0/16 10.0.0.12", "10.244.0.0/24 10.0.0.10"}},
		{"all", putRouter, "", []string{}},
		// The destination keeps the form in which it was given, the next hop does not. By another
		// form it is not removed.
		{"IPv6", addRoutes, routeTo("FD00:0244::/64", "FD00::0010"), []string{"FD00:0244::/64 fd00::10"}},
		{"IPv6 in its usual form", removeRoutes, routeTo("fd00:244::/64", "fd00::10"), []string{"FD00:0244::/64 fd00::10"}},
		{"IPv6 as it is shown", removeRoutes, routeTo("FD00:0244::/64", "fd00::10"), []string{}},
		{"via the other family", addRoutes, routeTo("fd00:244::/64", "10.0.0.10"), []string{"fd00:244::/64 10.0.0.10"}},
		{"all", putRouter, "", []string{}},
		{"with bits of the host", addRoutes, routeTo("10.245.0.5/24", "10.0.0.10"), []string{"10.245.0.5/24 10.0.0.10"}},
		{"an address", addRoutes, routeTo("10.246.0.5", "10.0.0.10"), []string{"10.245.0.5/24 10.0.0.10", "10.246.0.5 10.0.0.10"}},
		{"what cannot be a route", removeRoutes, routeTo("nonsense", "10.0.0.10"), []string{"10.245.0.5/24 10.0.0.10", "10.246.0.5 10.0.0.10"}},
		{"via what cannot be a next hop", removeRoutes, routeTo("10.245.0.5/24", "nonsense"), []string{"10.245.0.5/24 10.0.0.10", "10.246.0.5 10.0.0.10"}},
	} {
		answer := n.ask(step.request, routesBody(step.routes))
		shown, _ := answer.Inner("router")["routes"].([]any)
		if got := n.routes(); answer.Status != http.StatusOK || !slices.Equal(got, step.want) ||
			len(shown) != len(step.want) {
			t.Errorf("%s, %s:\n%s\nthe router has %q, want %q", step.what, step.request, answer,
				got, step.want)
		}
	}
}

// The error names all routes, not only the invalid one. No route is created then.
func TestRouterRoutes_Refused(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.needs("extraroute-atomic")
	if n.Simulator != nil {
		n.Simulator.SetMaxRoutes(1000) // Neutron's max_routes, which is the lab's
	}
	good := routeTo("10.244.0.0/24", "10.0.0.10")
	var tooMany []string
	for i := range 1001 {
		tooMany = append(tooMany,
			routeTo(fmt.Sprintf("10.%d.%d.0/24", 100+i/256, i%256), "10.0.0.10"))
	}
	n.expect(
		exchange{
			addRoutes, routesBody(good + "," + routeTo("10.245.0.0/24", "10.99.0.10")), 400,
			"InvalidRoutes", "the nexthop is not connected with router",
		},
		exchange{
			addRoutes, routesBody(good + "," + routeTo("10.245.0.0/24", "10.0.0.1")), 400,
			"InvalidRoutes", "the nexthop is used by router",
		},
		exchange{
			addRoutes, routesBody(good + "," + routeTo("nonsense", "10.0.0.10")), 400,
			"AddrFormatError", "nonsense",
		},
		exchange{
			addRoutes, routesBody(good + "," + routeTo("10.245.0.0/24", "nonsense")), 400,
			"AddrFormatError", "nonsense",
		},
		exchange{
			putRouter, routesBody(good + "," + good), 400, "HTTPBadRequest",
			"Duplicate hostroute",
		},
		exchange{
			putRouter, routesBody(routeTo("10.245.0.5/24", "10.0.0.10")), 400,
			"HTTPBadRequest", "'10.245.0.0/24' is recommended",
		},
		exchange{
			"PUT /routers/$unknown/add_extraroutes", routesBody(good), 404, "RouterNotFound",
			"Router $unknown could not be found",
		},
		exchange{
			"PUT /routers/$unknown/remove_extraroutes", routesBody(good), 404, "RouterNotFound",
			"Router $unknown could not be found",
		},
		exchange{
			addRoutes, routesBody(strings.Join(tooMany, ",")), 400, "RoutesExhausted",
			"The number of routes exceeds the maximum",
		},
	)
	n.want("routes", n.routes(), []string{})
}

// One request can add hundreds of routes.
func TestRouterRoutes_ManyAtOnce(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.needs("extraroute-atomic")
	var all []string
	for i := range 200 {
		all = append(all, routeTo(fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("10.0.1.%d", i+1)))
	}
	n.expect(exchange{addRoutes, routesBody(strings.Join(all, ",")), 200, "", ""})
	n.want("routes", len(n.routes()), 200)
	n.expect(exchange{removeRoutes, routesBody(strings.Join(all[:150], ",")), 200, "", ""})
	n.want("routes", len(n.routes()), 50)
	n.expect(exchange{putRouter, `{"router":{"routes":null}}`, 200, "", ""})
	n.want("routes", len(n.routes()), 0)
}

// Each change of routes and interfaces is a new revision, and the header
// If-Match holds a write to one.
func TestRouterRevision_EachChange_IsANewOne(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.needs("extraroute-atomic")
	revision := func() string {
		return n.revision("/routers/$router?fields=revision_number", "router")
	}
	grows := func(what, request, body string, headers ...string) {
		t.Helper()
		before := revision()
		if answer := n.ask(request, body, headers...); answer.Status != http.StatusOK ||
			revision() == before {
			t.Errorf("%s: %s\nthe revision was %s, is %s", what, answer, before, revision())
		}
	}
	one, two := routesBody(routeTo("10.244.0.0/24", "10.0.0.10")),
		routesBody(routeTo("10.244.1.0/24", "10.0.0.10"))
	grows("a route is added", addRoutes, one)
	grows("a route is removed", removeRoutes, one)
	grows("all are replaced", putRouter, one)
	n.make("n2", "networks", "network", `{"name":"n2"}`)
	n.make("s2", "subnets", "subnet",
		`{"network_id":"$n2","cidr":"10.7.0.0/24","ip_version":4,"enable_dhcp":false}`)
	grows("an interface is added", "PUT /routers/$router/add_router_interface",
		`{"subnet_id":"$s2"}`)
	for request, body := range map[string]string{
		addRoutes: two, removeRoutes: one,
		putRouter: two,
	} {
		answer := n.ask(request, body, "If-Match", "revision_number=1")
		if err := (exchange{status: 412, kind: "RevisionNumberConstraintFailed"}).compare(answer,
			"Constrained to 1, but current revision is "+revision()); err != nil {
			t.Errorf("%s, an old revision: %s\n%v", request, answer, err)
		}
	}
	if answer := n.ask(removeRoutes, two, "If-Match",
		"revision_number=1"); answer.Status != http.StatusOK {
		t.Errorf("nothing to write, and so no condition: %s", answer)
	}
	n.want("routes", n.routes(), []string{"10.244.0.0/24 10.0.0.10"})
	n.noted["revision"] = revision()
	grows("on the condition of the newest revision", putRouter, two, "If-Match",
		"revision_number=$revision")
	n.noted["revision"] = revision()
	grows("with extraroute-atomic, too", addRoutes, one, "If-Match", "revision_number=$revision")
	// Neutron ignores a header of another form.
	grows("a header of HTTP's own form", putRouter, one, "If-Match", "*")
	if answer := n.ask(putRouter, one, "If-Match",
		"revision_number=x"); answer.Status != http.StatusBadRequest {
		t.Errorf("%s", answer)
	}
}

// A next hop may be on a connected subnet or on the external network.
func TestRouterInterfaces_NextHop_MustBeConnected(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.needs("extraroute-atomic")
	const addInterface = "PUT /routers/$router/add_router_interface"
	n.make("n2", "networks", "network", `{"name":"n2"}`)
	n.make("lone", "subnets", "subnet",
		`{"network_id":"$n2","cidr":"10.77.7.0/24","ip_version":4,"enable_dhcp":false,"gateway_ip":null}`)
	n.expect(
		exchange{
			addInterface, `{"subnet_id":"$lone"}`, 400, "BadRequest",
			"Subnet for router interface must have a gateway IP",
		},
		exchange{addInterface, `{"subnet_id":"$unknown"}`, 404, "SubnetNotFound", ""},
		exchange{
			addRoutes, routesBody(routeTo("10.244.0.0/24", "10.77.7.10")), 400, "InvalidRoutes",
			"the nexthop is not connected with router",
		},
		exchange{addRoutes, routesBody(routeTo("10.244.0.0/24", "198.18.0.1")), 200, "", ""},
	)
}
