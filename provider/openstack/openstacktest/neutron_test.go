package openstacktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/common/extensions"
)

// networkOf is a client of Neutron for the project of the credentials.
func networkOf(t *testing.T, s *Cloud, c Credentials) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewNetworkV2(login(t, s, byPassword(c)), inRegion(s))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// site is a network with a subnet behind a router with a gateway.
type site struct{ external, externalSubnet, internal, subnet, router string }

func newSite(s *Cloud) site {
	var made site
	made.external = s.AddNetwork(Network{Name: "public", External: true})
	made.externalSubnet = s.AddSubnet(Subnet{NetworkID: made.external, CIDR: "203.0.113.0/24"})
	made.internal = s.AddNetwork(Network{Name: "nodes"})
	made.subnet = s.AddSubnet(Subnet{NetworkID: made.internal, CIDR: "10.0.0.0/24"})
	made.router = s.AddRouter(
		Router{Name: "r", ExternalNetworkID: made.external, Subnets: []string{made.subnet}})
	return made
}

// as sends a request with a token of the credentials.
func as(
	t *testing.T, s *Cloud, c Credentials, method, path, body string, header ...string,
) exchange {
	t.Helper()
	return send(t, s, method, "/networking/v2.0/"+path, body,
		append([]string{"X-Auth-Token", c.Token}, header...)...)
}

// askNeutron sends a request with a token of the default project.
func askNeutron(t *testing.T, s *Cloud, method, path, body string, header ...string) exchange {
	t.Helper()
	return as(t, s, s.Credentials(), method, path, body, header...)
}

// refuses checks an error in Neutron's form; the message holds the text.
func (e exchange) refuses(status int, kind, text string) {
	e.t.Helper()
	var body struct {
		NeutronError struct{ Type, Message, Detail string }
	}
	e.into(&body)
	if e.status != status || body.NeutronError.Type != kind ||
		!strings.Contains(body.NeutronError.Message, text) {
		e.t.Errorf("%d %s, want %d %s with %q", e.status, e.body, status, kind, text)
	}
}

// succeeds checks the status and returns the resource of the body.
func (e exchange) succeeds(status int, member string) map[string]any {
	e.t.Helper()
	if e.status != status {
		e.t.Fatalf("status %d, want %d: %s", e.status, status, e.body)
	}
	if member == "" {
		return nil
	}
	var body map[string]json.RawMessage
	e.into(&body)
	var resource map[string]any
	if err := json.Unmarshal(body[member], &resource); err != nil {
		e.t.Fatalf("no %s in %s", member, e.body)
	}
	return resource
}

// names are the names of the resources of a list, in its order.
func (e exchange) names(collection string) []string {
	e.t.Helper()
	var body map[string]json.RawMessage
	e.into(&body)
	var resources []struct{ Name string }
	if err := json.Unmarshal(body[collection], &resources); err != nil {
		e.t.Fatalf("no %s in %s", collection, e.body)
	}
	names := []string{}
	for _, resource := range resources {
		names = append(names, resource.Name)
	}
	return names
}

func TestVersions_NeedNoToken(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/networking", "/networking/"} {
		send(t, s, http.MethodGet, path, "").is(http.StatusOK, `{"versions":[{"id":"v2.0","status":"CURRENT",
			"links":[{"rel":"self","href":"`+s.URL()+`/networking/v2.0/"}]}]}`)
	}
	if got := send(t, s, http.MethodGet, "/networking/v2.0/ports",
		""); got.status != http.StatusUnauthorized {
		t.Errorf("ports without a token: %d, want 401", got.status)
	}
}

func TestExtensions_AreListedAndServedUnlessOff(t *testing.T) {
	s := start(t, WithoutExtensions("extraroute", "trunk"))
	client := networkOf(t, s, s.Credentials())
	page, err := extensions.List(client).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := extensions.ExtractExtensions(page)
	if err != nil {
		t.Fatal(err)
	}
	aliases := []string{}
	for _, one := range all {
		aliases = append(aliases, one.Alias)
	}
	for alias, want := range map[string]bool{
		"router": true, "allowed-address-pairs": true, "standard-attr-revisions": true,
		"revision-if-match": true,
		"extraroute":        false, "extraroute-atomic": false, "trunk": false,
		"trunk-details": false,
	} {
		if slices.Contains(aliases, alias) != want {
			t.Errorf("extension %s is listed: %v, want %v", alias, !want, want)
		}
	}
	askNeutron(t, s, http.MethodGet, "trunks", "").refuses(404, "HTTPNotFound",
		"could not be found")
}

func TestRelease_EachKnown_HasItsVersionsAndExtensions(t *testing.T) {
	for name, want := range map[string]struct {
		subnet, addRoutes int
		// compute and octavia are in the lists of versions, and beyond is not in Octavia's.
		compute, octavia, beyond string
	}{
		"zed":    {404, 200, `"version":"2.93"`, `"v2.26"`, `"v2.27"`},
		"2025.1": {200, 404, `"version":"2.100"`, `"v2.30"`, `"v2.31"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, WithRelease(name))
			at := newSite(s)
			if got := askNeutron(t, s, http.MethodGet, "subnets/"+at.externalSubnet,
				""); got.status != want.subnet {
				t.Errorf("the external subnet: %d, want %d", got.status, want.subnet)
			}
			if got := askNeutron(t, s, http.MethodPut, "routers/"+at.router+"/add_extraroutes",
				`{"router":{"routes":[]}}`); got.status != want.addRoutes {
				t.Errorf("add_extraroutes: %d, want %d", got.status, want.addRoutes)
			}
			compute := send(t, s, http.MethodGet, "/compute/", "").body
			octavia := send(t, s, http.MethodGet, "/load-balancer/", "").body
			if !bytes.Contains(compute, []byte(want.compute)) ||
				!bytes.Contains(octavia, []byte(want.octavia)) ||
				bytes.Contains(octavia, []byte(want.beyond)) {
				t.Errorf("the versions are %s and %s, want %s and %s", compute, octavia,
					want.compute, want.octavia)
			}
		})
	}
}

func TestRelease_Unknown_Panics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	WithRelease("2000.1")
}

func TestExtensions_Off_HideTheirAttributes(t *testing.T) {
	s := start(t)
	at := newSite(s)
	port := s.AddPort(Port{NetworkID: at.internal, Name: "p"})
	for _, c := range []struct{ alias, path, member, attribute, value string }{
		{"allowed-address-pairs", "ports/" + port, "port", "allowed_address_pairs", `[]`},
		{"port-security", "ports/" + port, "port", "port_security_enabled", `true`},
		{"security-group", "ports/" + port, "port", "security_groups", `[]`},
		{"extraroute", "routers/" + at.router, "router", "routes", `[]`},
		{"standard-attr-revisions", "networks/" + at.internal, "network", "revision_number", `1`},
		{"standard-attr-tag", "networks/" + at.internal, "network", "tags", `[]`},
		{"standard-attr-tag", "ports/" + port, "port", "tags", `[]`},
		{"trunk-details", "ports/" + port, "port", "trunk_details", `null`},
	} {
		t.Run(c.alias, func(t *testing.T) {
			shows := func() bool {
				_, found := askNeutron(t, s, http.MethodGet, c.path, "").succeeds(200,
					c.member)[c.attribute]
				return found
			}
			if !shows() {
				t.Errorf("%s is not shown with the extension", c.attribute)
			}
			if err := s.SetExtension(c.alias, false); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.SetExtension(c.alias, true) }()
			if shows() {
				t.Errorf("%s is shown without the extension", c.attribute)
			}
			body := `{"` + c.member + `":{"` + c.attribute + `":` + c.value + `}}`
			askNeutron(t, s, http.MethodPut, c.path, body).refuses(400, "HTTPBadRequest",
				"Unrecognized attribute(s) '"+c.attribute+"'")
		})
	}
	if err := s.SetExtension("no-such-extension", false); err == nil {
		t.Error("an unknown extension was set")
	}
}

func TestProjects_SeeOwnAndSharedResources(t *testing.T) {
	s := start(t)
	at := newSite(s)
	shared := s.AddNetwork(Network{Name: "shared", Shared: true})
	s.AddSubnet(Subnet{Name: "on shared", NetworkID: shared, CIDR: "10.7.0.0/24"})
	s.AddPort(Port{NetworkID: at.internal, Name: "mine"})
	other := s.AddProject(Project{Name: "other"})
	s.AddPort(Port{NetworkID: shared, Name: "theirs", ProjectID: other.ProjectID})
	admin := s.AddProject(Project{Name: "admin", Admin: true})

	for _, c := range []struct {
		who        string
		by         Credentials
		path, list string
		want       []string
	}{
		{"the owner", s.Credentials(), "networks", "networks", []string{"public", "nodes", "shared"}},
		{"another project", other, "networks", "networks", []string{"public", "shared"}},
		{"an administrator", admin, "networks", "networks", []string{"public", "nodes", "shared"}},
		{"another project", other, "subnets", "subnets", []string{"on shared"}},
		{"another project", other, "routers", "routers", []string{}},
		{"another project", other, "floatingips", "floatingips", []string{}},
		{"another project", other, "security-groups", "security_groups", []string{"default"}},
		{"another project", other, "ports", "ports", []string{"theirs"}},
		// A project sees all ports on its networks.
		{"the owner", s.Credentials(), "ports?device_id=", "ports", []string{"mine", "theirs"}},
		{"an administrator", admin, "ports?device_owner=" + "network:router_gateway", "ports", []string{""}},
	} {
		if got := as(t, s, c.by, http.MethodGet, c.path, "").names(c.list); !slices.Equal(got,
			c.want) {
			t.Errorf("%s sees of %s %q, want %q", c.who, c.path, got, c.want)
		}
	}
}

func TestProjects_ResourcesOfOthers_AreRefused(t *testing.T) {
	s := start(t)
	at := newSite(s)
	shared := s.AddNetwork(Network{Name: "shared", Shared: true})
	other := s.AddProject(Project{Name: "other"})
	admin := s.AddProject(Project{Name: "admin", Admin: true})
	for path, kind := range map[string]string{
		"networks/" + at.internal: "NetworkNotFound", "subnets/" + at.subnet: "SubnetNotFound",
		"ports/" + s.AddPort(Port{NetworkID: at.internal}):                   "PortNotFound",
		"routers/" + at.router:                                               "RouterNotFound",
		"floatingips/" + s.AddFloatingIP(FloatingIP{NetworkID: at.external}): "FloatingIPNotFound",
		"security-groups/" +
			s.AddSecurityGroup(SecurityGroup{Name: "g"}): "SecurityGroupNotFound",
		"security-group-rules/none": "SecurityGroupRuleNotFound", "trunks/none": "TrunkNotFound",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			as(t, s, other, method, path, "").refuses(404, kind, "")
		}
	}
	as(t, s, other, http.MethodPut, "networks/"+shared, `{"network":{"name":"x"}}`).
		refuses(403, "PolicyNotAuthorized", "rule:update_network is disallowed by policy")
	port := s.AddPort(Port{NetworkID: shared, ProjectID: other.ProjectID})
	as(t, s, other, http.MethodPut, "ports/"+port,
		`{"port":{"allowed_address_pairs":[{"ip_address":"10.9.0.0/24"}]}}`).
		refuses(403, "PolicyNotAuthorized", "update_port:allowed_address_pairs")
	as(t, s, other, http.MethodPost, "networks", `{"network":{"shared":true}}`).
		refuses(403, "PolicyNotAuthorized", "create_network:shared")
	as(t, s, admin, http.MethodPost, "networks",
		`{"network":{"shared":true,"project_id":"`+other.ProjectID+`"}}`).
		succeeds(201, "network")
}

func TestSnapshot_Changed_LeavesTheCloudAsItIs(t *testing.T) {
	s := start(t)
	at := newSite(s)
	s.AddPort(Port{NetworkID: at.internal, Name: "p", Tags: []string{"a"}})
	named := func() Port {
		ports := s.Ports()
		return ports[slices.IndexFunc(ports, func(port Port) bool { return port.Name == "p" })]
	}
	port := named()
	port.Tags[0], port.FixedIPs[0].Address = "b", "192.0.2.1"
	if port := named(); port.Tags[0] != "a" || port.FixedIPs[0].Address == "192.0.2.1" {
		t.Errorf("a change of the snapshot changed the cloud: %+v", port)
	}
}

func TestAdd_RefusedResource_Panics(t *testing.T) {
	s := start(t)
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text,
			"Network none could not be found") {
			t.Errorf("panic %q, want one that names the network", text)
		}
		// The lock must be free.
		s.Ports()
	}()
	s.AddPort(Port{NetworkID: "none"})
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
