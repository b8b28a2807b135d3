package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// The provider works without each of these extensions, but most clouds have them. Neutron with OVN,
// which the labs since 2025.1 have, lacks extraroute-atomic.
func TestNetworkExtensions_ThoseThatTheProviderAsksFor(t *testing.T) {
	onReleases(t, testExtensions)
}

func testExtensions(t *testing.T, n *neutron, release string) {
	has := n.list("/extensions", "extensions", "alias")
	for _, alias := range []string{
		"extraroute", "allowed-address-pairs", "port-security",
		"standard-attr-tag", "standard-attr-revisions",
		"revision-if-match", "trunk", "trunk-details", "router", "external-net", "security-group",
		"filter-validation",
	} {
		if !slices.Contains(has, alias) {
			t.Errorf("no extension %s: %q", alias, has)
		}
	}
	n.want("extraroute-atomic", slices.Contains(has, "extraroute-atomic"), release == "zed")
	if links := n.ask("GET /extensions", "").Object()["extensions_links"]; links != nil {
		t.Errorf("the list of extensions has links: %v", links)
	}
	n.expect(exchange{
		"GET /nothing-of-neutrons", "", 404, "HTTPNotFound", "The resource could not be found.",
	})
}

// Without a limit there are no pages, and the marker is ignored. A full page has a link to a next
// one, also if that is empty.
func TestNetworkPages_WithALimit_LinkToTheNext(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithoutNetwork())
	// The order of a list is that of the IDs.
	var ids []string
	for range 5 {
		ids = append(ids, project.ID(n.make("made", "networks", "network", `{}`)))
	}
	slices.Sort(ids)
	for i, id := range ids {
		name := fmt.Sprintf("n%d", i)
		n.noted[name] = id
		n.expect(
			exchange{"PUT /networks/" + id, `{"network":{"name":"` + name + `"}}`, 200, "", ""})
	}
	for _, test := range []struct{ query, want string }{
		{"", "n0 n1 n2 n3 n4"},
		{"limit=0", "n0 n1 n2 n3 n4"},
		{"marker=$n2", "n0 n1 n2 n3 n4"},
		{"marker=$unknown", "n0 n1 n2 n3 n4"},
		{"limit=2", "n0 n1 next=n1"},
		{"limit=2&marker=$n1", "n2 n3 next=n3"},
		{"limit=2&marker=$n3", "n4"},
		{"limit=2&marker=$n4", ""},
		{"limit=5", "n0 n1 n2 n3 n4 next=n4"},
		{"limit=6", "n0 n1 n2 n3 n4"},
		// The marker is a place in the order, whether it passes the filters or not.
		{"limit=2&marker=$n1&name=n4", "n4"},
		{"limit=2&name=nothing", ""},
	} {
		if got := n.page("project_id=$project&fields=id&fields=name&" +
			test.query); got != test.want {
			t.Errorf("%q: %q, want %q", test.query, got, test.want)
		}
	}
	n.expect(
		exchange{
			"GET /networks?limit=2&marker=$unknown", "", 404, "NetworkNotFound",
			"Network $unknown could not be found.",
		},
		exchange{
			"GET /networks?limit=two", "", 400, "BadRequest",
			"Limit must be an integer 0 or greater",
		},
		exchange{
			"GET /networks?limit=-1", "", 400, "BadRequest",
			"Limit must be an integer 0 or greater",
		},
	)
}

// page is a page of networks in a line: their names, and where the links lead.
func (n *neutron) page(query string) string {
	n.t.Helper()
	answer := n.ask("GET /networks?"+query, "")
	if answer.Status != http.StatusOK {
		return answer.String()
	}
	names := map[string]string{"": ""}
	var words, links []string
	items, _ := answer.Object()["networks"].([]any)
	for _, item := range items {
		o, _ := item.(project.Object)
		names[project.ID(o)] = project.Text(o, "name")
		words = append(words, project.Text(o, "name"))
	}
	all, _ := answer.Object()["networks_links"].([]any)
	for _, l := range all {
		link, _ := l.(project.Object)
		if link["rel"] != "next" {
			continue
		}
		to, err := url.Parse(project.Text(link, "href"))
		if err != nil {
			n.t.Fatalf("%s: %v", answer, err)
		}
		// Neutron's links have the filters.
		if to.Query().Get("project_id") != n.ID {
			n.t.Errorf("%s: a link has lost the filters", answer)
		}
		links = append(links, fmt.Sprintf("%s=%s", link["rel"], names[to.Query().Get("marker")]))
	}
	slices.Sort(links)
	return strings.Join(append(words, links...), " ")
}

// A filter that is repeated is an "or", several are an "and", and what is no
// filter is refused.
func TestNetworkFilters_RepeatedOrUnknown_AreOrRefused(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithIPv6())
	n.make("one", "ports", "port", `{"network_id":"$net","name":"one","device_id":"dev-1","description":"d1",
		"fixed_ips":[{"subnet_id":"$subnet4","ip_address":"10.0.5.1"},{"subnet_id":"$subnet6","ip_address":"fd00::51"}]}`)
	n.make("two", "ports", "port", `{"network_id":"$net","name":"two","device_id":"dev-2","device_owner":"compute:az-a",
		"fixed_ips":[{"subnet_id":"$subnet4","ip_address":"10.0.5.2"}],"security_groups":[]}`)
	n.make("bare", "ports", "port", `{"network_id":"$net","name":"bare","fixed_ips":[]}`)
	groups, _ := n.get("/ports/$one", "port", "security_groups").([]any)
	n.noted["group"] = fmt.Sprint(groups[0])
	n.expect(
		exchange{"PUT /ports/$one/tags", `{"tags":["a","b"]}`, 200, "", ""},
		exchange{"PUT /ports/$two/tags", `{"tags":["b","c"]}`, 200, "", ""},
	)
	for _, test := range []struct{ query, want string }{
		{"device_id=dev-1", "one"},
		{"device_id=dev-1&device_id=dev-2&device_id=dev-3", "one two"},
		{"device_id=", "bare"},
		{"name=one&name=two", "one two"},
		{"name=one&device_id=dev-2", ""},
		{"description=d1", "one"},
		{"device_owner=compute:az-a", "two"},
		{"id=$one&id=$bare&id=$unknown", "bare one"},
		{"network_id=$net&network_id=$public&name=one", "one"},
		{"project_id=$project&name=one", "one"},
		{"tenant_id=$project&name=one", "one"},
		{"project_id=$unknown", ""},
		{"fixed_ips=ip_address=10.0.5.1", "one"},
		{"fixed_ips=ip_address%3D10.0.5.1&fixed_ips=ip_address%3D10.0.5.2&network_id=$net", "one two"},
		{"fixed_ips=ip_address=fd00::51", "one"},
		{"fixed_ips=subnet_id=$subnet6&device_id=dev-1&device_id=dev-2", "one"},
		// Each key has to fit an address, which need not be the same one.
		{"fixed_ips=ip_address=10.0.5.1&fixed_ips=subnet_id=$subnet6", "one"},
		{"fixed_ips=ip_address_substr=10.0.5.", "one two"},
		{"fixed_ips=ip_address=10.0.9.9", ""},
		{"fixed_ips=ip_address=nonsense", ""},
		{"security_groups=$group&network_id=$net", "bare one"},
		{"security_groups=$group&security_groups=$unknown&name=one", "one"},
		{"security_groups=$unknown", ""},
		{"tags=a", "one"},
		{"tags=b", "one two"},
		{"tags=a,b", "one"},
		{"tags=a&tags=c", ""},
		{"tags-any=a,c", "one two"},
		{"not-tags=a,b&name=one&name=two", "two"},
		{"not-tags-any=c&name=one&name=two", "one"},
		{"admin_state_up=true&name=one", "one"},
	} {
		got := strings.Join(n.list("/ports?fields=name&"+test.query, "ports", "name"), " ")
		if got != test.want {
			t.Errorf("ports by %q: %q, want %q", test.query, got, test.want)
		}
	}
	n.expect(
		exchange{
			"GET /ports?nonsense=1", "", 400, "HTTPBadRequest",
			"['nonsense'] is invalid attribute for filtering",
		},
		exchange{
			"GET /ports?port_security_enabled=true", "", 400, "HTTPBadRequest",
			"['port_security_enabled'] is invalid attribute",
		},
		exchange{
			"GET /ports?allowed_address_pairs=x", "", 400, "HTTPBadRequest",
			"is invalid attribute for filtering",
		},
		exchange{
			"GET /routers?routes=x", "", 400, "HTTPBadRequest",
			"['routes'] is invalid attribute for filtering",
		},
		exchange{
			"GET /ports?fixed_ips=10.0.5.1", "", 400, "InvalidInput",
			"'10.0.5.1' is not of the form <key>=[value].",
		},
		exchange{
			"GET /ports?admin_state_up=perhaps", "", 400, "InvalidInput",
			"'perhaps' cannot be converted to boolean.",
		},
		exchange{
			"GET /ports/$unknown", "", 404, "PortNotFound",
			"Port $unknown could not be found.",
		},
		exchange{
			"GET /subnets/$unknown", "", 404, "SubnetNotFound",
			"Subnet $unknown could not be found.",
		},
		exchange{
			"GET /routers/$unknown", "", 404, "RouterNotFound",
			"Router $unknown could not be found",
		},
	)
	// A list shows only the requested fields; unknown ones are ignored.
	answer := n.ask("GET /ports/$one?fields=name&fields=revision_number&fields=nonsense", "")
	n.want("fields", len(answer.Inner("port")), 2)
}

// All projects see the network and the IDs of its subnets, but in Zed not the subnets unless the
// network is shared.
func TestNetworkVisibility_OfTheExternalNetwork(t *testing.T) {
	onReleases(t, testExternalNetwork)
}

func testExternalNetwork(t *testing.T, n *neutron, release string) {
	n.want("the external networks",
		slices.Contains(n.list("/networks?router:external=true&fields=id", "networks", "id"),
			n.Public), true)
	n.want("external", n.get("/networks/$public", "network", "router:external"), true)
	subnets, _ := n.get("/networks/$public", "network", "subnets").([]any)
	if len(subnets) == 0 {
		t.Fatal("the external network shows no subnet")
	}
	n.noted["pool"] = fmt.Sprint(subnets[0])
	hidden := release == "zed"
	n.want("its subnets are hidden",
		len(n.list("/subnets?network_id=$public", "subnets", "id")) == 0, hidden)
	n.want("an own network",
		n.list("/networks?router:external=false&name=nodes&fields=id", "networks", "id"),
		[]string{n.Network})
	several, pool := []string{n.Subnets[4]}, exchange{
		"GET /subnets/$pool", "", 404, "SubnetNotFound", "Subnet $pool could not be found.",
	}
	if !hidden {
		several = append(several, n.noted["pool"])
		slices.Sort(several)
		pool = exchange{"GET /subnets/$pool", "", 200, "", ""}
	}
	n.want("several subnets",
		n.list("/subnets?id=$subnet4&id=$pool&id=$unknown&fields=id", "subnets", "id"), several)
	n.expect(
		pool,
		exchange{"admin GET /subnets/$pool", "", 200, "", ""},
		exchange{
			"PUT /networks/$public", `{"network":{"name":"mine"}}`, 403, "PolicyNotAuthorized",
			"rule:update_network is disallowed by policy",
		},
		exchange{
			"POST /ports", `{"port":{"network_id":"$public"}}`, 403, "HTTPForbidden",
			"not allowed to create port on this network",
		},
		exchange{
			"GET /networks?router:external=perhaps", "", 400, "InvalidInput",
			"'perhaps' cannot be converted to boolean.",
		},
	)
	// The router's gateway is there in the router, and its port is no user's to see.
	gateway, _ := n.get("/routers/$router", "router", "external_gateway_info").(project.Object)
	n.want("the gateway's network", gateway["network_id"], n.Public)
	n.want("owners of the router's ports",
		n.list("/ports?device_id=$router", "ports", "device_owner"),
		[]string{"network:router_interface"})
	n.want("their port security",
		n.list("/ports?device_id=$router", "ports", "port_security_enabled"), []string{"false"})
}

// A quota is told by a 409 of its own type. It is what the project uses, because 2025.1 refuses a
// lower one.
func TestNetworkQuotas_AreReached_Answer409(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.make("group", "security-groups", "security_group", `{"name":"group"}`)
	for _, resource := range []string{
		"port", "floatingip", "security_group", "security_group_rule",
	} {
		detail, _ := n.get("/quotas/$project/details.json", "quota", resource).(project.Object)
		used, _ := detail["used"].(float64)
		limit := int(used)
		if n.Simulator != nil {
			n.Simulator.SetNetworkQuota(resource, limit)
			continue
		}
		body := fmt.Sprintf(`{"quota":{"%s":%d}}`, resource, limit)
		n.expect(exchange{"admin PUT /quotas/$project", body, 200, "", ""})
	}
	n.expect(
		exchange{
			"POST /ports", `{"port":{"network_id":"$net"}}`, 409, "OverQuota",
			"Quota exceeded for resources: ['port'].",
		},
		exchange{
			"POST /floatingips", `{"floatingip":{"floating_network_id":"$public"}}`, 409,
			"OverQuota", "['floatingip']",
		},
		exchange{
			"POST /security-groups", `{"security_group":{"name":"q"}}`, 409, "OverQuota",
			"['security_group']",
		},
		exchange{
			"POST /security-group-rules",
			`{"security_group_rule":{"security_group_id":"$group","direction":"ingress"}}`,
			409, "OverQuota", "['security_group_rule']",
		},
	)
	detail, _ := n.get("/quotas/$project/details.json", "quota", "floatingip").(project.Object)
	n.want("the limit of floating IPs", detail["limit"], 0.0)
	n.want("the floating IPs", detail["used"], 0.0)
}
