package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// at is the header that asks for a microversion of Nova's.
func at(microversion string) []string {
	return []string{"OpenStack-API-Version", "compute " + microversion}
}

// novas is what Nova says of an error of this kind: {"itemNotFound": {"message": ...}}; "" if it is
// of another.
func novas(a project.Answer, kind string) string { return project.Text(a.Inner(kind), "message") }

// nothing is an unknown id.
const nothing = "00000000-0000-4000-8000-000000000000"

// It looks at servers that do not change. There are four: n-1 with all that can be given,
// N-1, n-2, n-10.
func TestServers_Unchanged_AreShownAndListed(t *testing.T) {
	t.Parallel()
	p := project.New(t, project.WithIPv6())
	first := p.AddServer("n-1", object{
		"metadata": object{"hostname": "host.example", "a": "b"}, "tags": []string{"blue", "green"},
		"accessIPv4": "203.0.113.7", "accessIPv6": "2001:db8::7",
	})
	p.AddServers([]string{"n-2", "N-1", "n-10"})
	t.Run("Shown", func(t *testing.T) { testServerShown(t, p.In(t), first) })
	t.Run("NotFound", func(t *testing.T) { testServerNotFound(t, p.In(t)) })
	t.Run("Microversions", func(t *testing.T) { testMicroversions(t, p.In(t)) })
	t.Run("WhatMicroversionsShow",
		func(t *testing.T) { testWhatMicroversionsShow(t, p.In(t), first) })
	t.Run("List", func(t *testing.T) { testServerList(t, p.In(t), first) })
	t.Run("ListRefused", func(t *testing.T) { testServerListRefused(t, p.In(t)) })
	t.Run("Pages", func(t *testing.T) { testServerPages(t, p.In(t)) })
}

func testServerShown(t *testing.T, p *project.Project, first project.Server) {
	got := p.User().Get(project.Compute, "/servers/"+first.ID, "server")
	for key, want := range map[string]any{
		"id": first.ID, "name": "n-1", "status": "ACTIVE", "tenant_id": p.ID,
		"accessIPv4": "203.0.113.7", "accessIPv6": "2001:db8::7", "progress": 0.0, "key_name": nil,
		"OS-EXT-AZ:availability_zone": p.Zones[0], "OS-EXT-STS:vm_state": "active",
		"OS-EXT-STS:task_state":  nil,
		"OS-EXT-STS:power_state": 1.0, "OS-SRV-USG:terminated_at": nil,
	} {
		if value, there := got[key]; !there || value != want {
			t.Errorf("%s is %v, want %v", key, value, want)
		}
	}
	if meta := fmt.Sprint(got["metadata"]); meta != "map[a:b hostname:host.example]" {
		t.Errorf("the metadata is %s", meta)
	}
	if groups := fmt.Sprint(got["security_groups"]); groups != "[map[name:default]]" {
		t.Errorf("the security groups are %s", groups)
	}
	port := p.User().Get(project.Network, "/ports/"+first.Port, "port")
	want := []string{
		"fixed 4 " + first.Addresses[4] + " " + project.Text(port, "mac_address"),
		"fixed 6 " + first.Addresses[6] + " " + project.Text(port, "mac_address"),
	}
	// Neutron gives a port's addresses in no order.
	if addresses := slices.Sorted(slices.Values(addressesOf(got, p.NetworkName))); !slices.Equal(
		addresses, want) {
		t.Errorf("the addresses are %q, want %q", addresses, want)
	}
	if owner := project.Text(port, "device_owner"); owner != "compute:"+p.Zones[0] ||
		project.Text(port, "status") != "ACTIVE" {
		t.Errorf("the port is %v", port)
	}
	if hidden := got["OS-EXT-SRV-ATTR:host"]; hidden != nil {
		t.Errorf("its host is told to a member: %v", hidden)
	}
	if host := p.Admin().Get(project.Compute, "/servers/"+first.ID,
		"server")["OS-EXT-SRV-ATTR:host"]; host == nil || host == "" {
		t.Errorf("its host is not told to an administrator: %v", host)
	}
}

// addressesOf are those of a server in a network: type, version, address, MAC.
func addressesOf(server object, network string) (texts []string) {
	networks, _ := server["addresses"].(object)
	all, _ := networks[network].([]any)
	for _, one := range all {
		a, _ := one.(object)
		texts = append(texts,
			fmt.Sprintf("%v %v %v %v", a["OS-EXT-IPS:type"], a["version"], a["addr"],
				a["OS-EXT-IPS-MAC:mac_addr"]))
	}
	return texts
}

func testServerNotFound(t *testing.T, p *project.Project) {
	for _, id := range []string{nothing, "no-id"} {
		for method, path := range map[string]string{
			http.MethodGet:    "/servers/" + id,
			http.MethodDelete: "/servers/" + id,
		} {
			answer := p.User().Try(method, project.Compute, path, nil)
			if answer.Status != http.StatusNotFound ||
				novas(answer, "itemNotFound") != "Instance "+id+" could not be found." {
				t.Errorf("%s", answer)
			}
		}
	}
}

// versionOf is the highest microversion that the version document tells.
func versionOf(t *testing.T, p *project.Project) (highest int) {
	t.Helper()
	root := strings.TrimSuffix(p.User().Endpoint(project.Compute), "/v2.1")
	list := p.User().Must(http.MethodGet, project.Compute, root+"/", nil)
	one := p.User().Must(http.MethodGet, project.Compute, root+"/v2.1/", nil)
	version := one.Inner("version")
	if _, err := fmt.Sscanf(project.Text(version, "version"), "2.%d", &highest); err != nil ||
		project.ID(version) != "v2.1" || version["status"] != "CURRENT" ||
		version["min_version"] != "2.1" {
		t.Fatalf("%s", one)
	}
	versions, _ := list.Object()["versions"].([]any)
	if len(versions) != 2 || versions[1].(object)["version"] != version["version"] {
		t.Errorf("%s", list)
	}
	return highest
}

func testMicroversions(t *testing.T, p *project.Project) {
	highest := versionOf(t, p)
	latest, above := fmt.Sprintf("2.%d", highest), fmt.Sprintf("2.%d", highest+1)
	unsupported := func(version string) string {
		return fmt.Sprintf(
			"Version %s is not supported by the API. Minimum is 2.1 and maximum is %s.", version,
			latest)
	}
	for name, test := range map[string]struct {
		header []string
		status int
		// version is that of the answer, which names an unknown version, too.
		version, kind, says string
	}{
		"none":            {nil, 200, "2.1", "", ""},
		"the newest":      {at(latest), 200, latest, "", ""},
		"latest":          {at("latest"), 200, latest, "", ""},
		"in between":      {at("2.47"), 200, "2.47", "", ""},
		"nothing":         {at(""), 200, "2.1", "", ""},
		"another service": {[]string{"OpenStack-API-Version", "volume 3.50"}, 200, "2.1", "", ""},
		"the old header":  {[]string{"X-OpenStack-Nova-API-Version", "2.26"}, 200, "2.26", "", ""},
		"both headers":    {append(at("2.27"), "X-OpenStack-Nova-API-Version", "2.26"), 200, "2.27", "", ""},
		"too new":         {at(above), 406, above, "computeFault", unsupported(above)},
		"too old":         {at("2.0"), 406, "2.0", "computeFault", unsupported("2.0")},
		"another major":   {at("3.0"), 406, "3.0", "computeFault", unsupported("3.0")},
		"no version":      {at("x"), 400, "", "badRequest", "API Version String x is of invalid format. Must be of format MajorNum.MinorNum."},
		"half a version":  {at("2"), 400, "", "badRequest", "API Version String 2 is of invalid format. Must be of format MajorNum.MinorNum."},
	} {
		answer := p.User().Try(http.MethodGet, project.Compute, "/servers?name=none", nil,
			test.header...)
		modern := ""
		if test.version != "" {
			modern = "compute " + test.version
		}
		if answer.Status != test.status || test.kind != "" &&
			novas(answer, test.kind) != test.says ||
			answer.Header.Get("OpenStack-API-Version") != modern ||
			answer.Header.Get("X-OpenStack-Nova-API-Version") != test.version {
			t.Errorf("%s: %s, %v; want %d, %q, %q", name, answer, answer.Header, test.status,
				test.version, test.says)
		}
	}
}

func testWhatMicroversionsShow(t *testing.T, p *project.Project, first project.Server) {
	since := map[string]int{"tags": 26}
	for _, minor := range []int{1, 9, 19, 26, 46, 47, 53, 63, 71, 73, 79, 90} {
		version := fmt.Sprintf("2.%d", minor)
		got := p.User().Get(project.Compute, "/servers/"+first.ID, "server", at(version)...)
		for key, from := range since {
			if _, shown := got[key]; shown != (minor >= from) {
				t.Errorf("at %s %q is shown: %t", version, key, shown)
			}
		}
		flavor, _ := got["flavor"].(object)
		if embedded := minor >= 47; (flavor["original_name"] == p.FlavorName) != embedded ||
			(flavor["id"] == p.Flavor) == embedded {
			t.Errorf("at %s the flavor is %v", version, flavor)
		}
	}
	listed := p.User().List(project.Compute, "/servers/detail?name=^n-1$", "servers", at("2.79")...)
	for _, server := range listed {
		if server["tags"] == nil ||
			project.Text(server["flavor"].(object), "original_name") == "" {
			t.Errorf("in a list it is %v", server)
		}
	}
}

func namesOf(servers []object) []string {
	names := []string{}
	for _, s := range servers {
		names = append(names, project.Text(s, "name"))
	}
	slices.Sort(names)
	return names
}

// testServerList: filters that are patterns match anywhere, and are blind to case. Nova ignores
// administrators' and unknown filters up to 2.74.
func testServerList(t *testing.T, p *project.Project, first project.Server) {
	const all, none = "N-1 n-1 n-10 n-2", ""
	for _, test := range []struct{ query, version, want string }{
		{"", "2.1", all},
		{"name=n-1", "2.1", "N-1 n-1 n-10"},
		{"name=^n-1$", "2.1", "N-1 n-1"},
		{`name=^n\-1$`, "2.47", "N-1 n-1"},
		{"name=n.1", "2.47", "N-1 n-1 n-10"},
		{"name=none", "2.1", none},
		{"name=none&name=n-2", "2.1", "n-2"},
		{"status=ACTIVE", "2.1", all},
		{"status=active", "2.47", all},
		{"status=SHUTOFF", "2.47", none},
		{"status=SHUTOFF&status=ACTIVE", "2.47", all},
		{"uuid=" + nothing, "2.90", all},
		{"all_tenants=0", "2.47", all},
		{"nonsense=1", "2.74", all},
		{"limit=2000", "2.47", all},
		{"limit=0", "2.47", none},
	} {
		servers := p.User().List(project.Compute, "/servers?"+escaped(test.query), "servers",
			at(test.version)...)
		got := namesOf(servers)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q at %s: %q, want %q", test.query, test.version, got, test.want)
		}
	}
	if got := p.Admin().List(project.Compute, "/servers?all_tenants=1&uuid="+first.ID,
		"servers"); len(got) != 1 {
		t.Errorf("an administrator's filter by id: %q", namesOf(got))
	}
}

// escaped leaves a query readable in the table.
func escaped(query string) string {
	return strings.NewReplacer("^", "%5E", "$", "%24", `\`, "%5C", "(", "%28", "[", "%5B", "*",
		"%2A").Replace(query)
}

func testServerListRefused(t *testing.T, p *project.Project) {
	parameter := func(name, value, why string) string {
		return "Invalid input for query parameters " + name + ". Value: " + value + ". " + why
	}
	for _, test := range []struct {
		query, version string
		status         int
		kind, says     string
	}{
		{"marker=none", "2.1", 400, "badRequest", "marker [none] not found"},
		{"marker=" + nothing, "2.47", 400, "badRequest", "marker [" + nothing + "] not found"},
		{"name=[", "2.47", 400, "badRequest", parameter("name", "[", "'[' is not a 'regex'")},
		{"name=*", "2.47", 400, "badRequest", parameter("name", "*", "'*' is not a 'regex'")},
		{"name=", "2.47", 400, "badRequest", parameter("name", "", "'' is not a 'regex'")},
		{"all_tenants=1", "2.1", 403, "forbidden", "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed."},
		{"nonsense=1", "2.75", 400, "badRequest", "'nonsense' does not match any of the regexes: '^_'"},
	} {
		answer := p.User().Try(http.MethodGet, project.Compute,
			"/servers/detail?"+escaped(test.query), nil, at(test.version)...)
		if answer.Status != test.status || !strings.HasPrefix(novas(answer, test.kind), test.says) {
			t.Errorf("%s; want %d %q", answer, test.status, test.says)
		}
	}
}

// testServerPages: a full page has a link to the next one, though nothing be left. The link keeps
// the filters.
func testServerPages(t *testing.T, p *project.Project) {
	var whole []string
	for _, s := range p.User().List(project.Compute, "/servers", "servers") {
		whole = append(whole, project.ID(s))
	}
	for limit := 1; limit <= 5; limit++ {
		var read []string
		pages, path := 0, fmt.Sprintf("/servers/detail?limit=%d&name=n-", limit)
		for path != "" {
			answer := p.User().Must(http.MethodGet, project.Compute, path, nil)
			servers, _ := answer.Object()["servers"].([]any)
			links, _ := answer.Object()["servers_links"].([]any)
			for _, s := range servers {
				read = append(read, project.ID(s.(object)))
			}
			if full := len(servers) == limit; full != (len(links) == 1) {
				t.Errorf("a page of %d at limit %d has the links %v", len(servers), limit, links)
			}
			pages, path = pages+1, ""
			for _, l := range links {
				link := l.(object)
				path = project.Text(link, "href")
				if link["rel"] != "next" ||
					!strings.HasPrefix(path,
						p.User().Endpoint(project.Compute)+"/servers/detail?") ||
					!strings.Contains(path, "name=n-") ||
					!strings.Contains(path, "marker="+read[len(read)-1]) {
					t.Errorf("the link is %v", link)
				}
			}
		}
		if !slices.Equal(read, whole) || pages != 4/limit+1 {
			t.Errorf("limit %d: %q in %d pages, want %q in %d", limit, read, pages, whole,
				4/limit+1)
		}
	}
	last := p.User().Must(http.MethodGet, project.Compute, "/servers?marker="+whole[3], nil)
	if servers, is := last.Object()["servers"].([]any); !is || len(servers) != 0 {
		t.Errorf("behind the last: %s", last)
	}
	filtered := p.User().List(project.Compute, "/servers?name=none&marker="+whole[0], "servers")
	if len(filtered) != 0 {
		t.Errorf("the marker itself is in the list: %v", filtered)
	}
	twice := p.User().Must(http.MethodGet, project.Compute, "/servers?limit=1&limit=2", nil)
	if servers, _ := twice.Object()["servers"].([]any); len(servers) != 2 {
		t.Errorf("of two limits the last one counts: %s", twice)
	}
}
