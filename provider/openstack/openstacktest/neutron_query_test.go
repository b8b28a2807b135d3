package openstacktest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// seedPorts makes ports a, b, c and d that differ in all that is filtered by.
func seedPorts(s *Cloud) (at site, other string) {
	at = newSite(s)
	s.AddSubnet(Subnet{NetworkID: at.internal, CIDR: "fd00:1::/64"})
	other = s.AddNetwork(Network{Name: "other"})
	subnet := s.AddSubnet(Subnet{NetworkID: other, CIDR: "10.1.0.0/24"})
	s.AddPort(Port{
		Name: "a", NetworkID: at.internal, DeviceID: "device-1", DeviceOwner: OwnerCompute,
		Tags:     []string{"x", "y"},
		FixedIPs: []FixedIP{{Address: "10.0.0.11"}, {Address: "fd00:1::11"}},
	})
	s.AddPort(Port{
		Name: "b", NetworkID: at.internal, DeviceID: "device-2", Tags: []string{"y"},
		FixedIPs: []FixedIP{{Address: "10.0.0.12"}},
	})
	s.AddPort(Port{
		Name: "c", NetworkID: other, DeviceID: "device-3", Down: true,
		FixedIPs: []FixedIP{{SubnetID: subnet, Address: "10.1.0.11"}},
	})
	s.AddPort(
		Port{Name: "d", NetworkID: other, MACAddress: "fa:16:3e:ff:ff:ff", FixedIPs: []FixedIP{}})
	return at, other
}

func TestFilter_ByAnyAttribute(t *testing.T) {
	s := start(t)
	at, other := seedPorts(s)
	project := s.Credentials().ProjectID
	notRouters := "&device_owner=&device_owner=" + OwnerCompute
	for query, want := range map[string]string{
		"name=a":                    "a",
		"name=a&name=c":             "a c",
		"name=a&device_id=device-2": "",
		"name=A":                    "",
		"device_id=device-1&device_id=device-3&device_id=none": "a c",
		"device_id=":                         "d",
		"network_id=" + other:                "c d",
		"project_id=" + project + notRouters: "a b c d",
		"tenant_id=" + project + "&name=b":   "b",
		"project_id=x":                       "",
		"admin_state_up=False":               "c",
		"admin_state_up=false":               "c",
		"admin_state_up=True&name=c":         "",
		"status=ACTIVE&device_id=device-1":   "a",
		"status=DOWN":                        "c d",
		"mac_address=fa:16:3e:ff:ff:ff":      "d",
		"fixed_ips=ip_address=10.0.0.11":     "a",
		"fixed_ips=ip_address=10.0.0.11&fixed_ips=ip_address=10.1.0.11": "a c",
		"fixed_ips=ip_address%3Dfd00:1:0::11":                           "a",
		"fixed_ips=subnet_id=" + at.subnet + notRouters:                 "a b",
		// Each key has to fit an address, which need not be the same one.
		"fixed_ips=subnet_id=" + at.subnet + "&fixed_ips=ip_address=fd00:1::11": "a",
		"fixed_ips=subnet_id=" + at.subnet + "&fixed_ips=ip_address=10.0.0.12":  "b",
		"fixed_ips=ip_address_substr=.0.11":                                     "a c",
		"tags=y":                                                                "a b",
		"tags=x,y":                                                              "a",
		"tags-any=x,y":                                                          "a b",
		"not-tags=x,y" + notRouters:                                             "b c d",
		"not-tags=y" + notRouters:                                               "c d",
		"not-tags-any=x,z" + notRouters:                                         "b c d",
		"revision_number=99":                                                    "",
	} {
		t.Run(query, func(t *testing.T) {
			got := askNeutron(t, s, http.MethodGet, "ports?"+query, "").names("ports")
			if strings.Join(got, " ") != want {
				t.Errorf("%q, want %q", strings.Join(got, " "), want)
			}
		})
	}
}

func TestFilter_BySecurityGroup(t *testing.T) {
	s := start(t)
	at := newSite(s)
	group := s.AddSecurityGroup(SecurityGroup{Name: "g"})
	s.AddPort(Port{Name: "in", NetworkID: at.internal, SecurityGroups: []string{group}})
	s.AddPort(Port{Name: "out", NetworkID: at.internal})
	if got := askNeutron(t, s, http.MethodGet, "ports?security_groups="+group,
		"").names("ports"); !slices.Equal(got, []string{"in"}) {
		t.Errorf("ports of the group: %q", got)
	}
}

func TestFilter_OfNetworksByExternal(t *testing.T) {
	s := start(t)
	newSite(s)
	for query, want := range map[string]string{
		"router:external=true": "public", "router%3Aexternal=False": "nodes",
		"shared=false": "public nodes",
	} {
		if got := strings.Join(askNeutron(t, s, http.MethodGet, "networks?"+query,
			"").names("networks"), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestFilter_Unknown_IsRefusedOrIgnored(t *testing.T) {
	s := start(t)
	seedPorts(s)
	askNeutron(t, s, http.MethodGet, "ports?nmae=a", "").refuses(400, "HTTPBadRequest",
		"['nmae'] is invalid attribute for filtering")
	askNeutron(t, s, http.MethodGet, "ports?allowed_address_pairs=a", "").refuses(400,
		"HTTPBadRequest", "for filtering")
	askNeutron(t, s, http.MethodGet, "ports?admin_state_up=perhaps", "").refuses(400,
		"InvalidInput", "cannot be converted to boolean")
	all := len(askNeutron(t, s, http.MethodGet, "ports", "").names("ports"))
	_ = s.SetExtension("filter-validation", false)
	if got := len(askNeutron(t, s, http.MethodGet, "ports?nmae=a", "").names("ports")); got != all {
		t.Errorf("%d ports with an unknown filter, want all %d", got, all)
	}
}

func TestFilter_Empty_IsNoneWithoutTheExtension(t *testing.T) {
	s := start(t, WithoutExtensions("empty-string-filtering"))
	seedPorts(s)
	all := len(askNeutron(t, s, http.MethodGet, "ports", "").names("ports"))
	if got := len(
		askNeutron(t, s, http.MethodGet, "ports?device_id=", "").names("ports")); got != all {
		t.Errorf("%d ports with an empty filter, want all %d", got, all)
	}
}

func TestFields_AreTheOnlyOnes(t *testing.T) {
	s := start(t)
	seedPorts(s)
	askNeutron(t, s, http.MethodGet, "ports?name=a&name=d&fields=name&fields=device_id", "").
		is(200, `{"ports":[{"name":"a","device_id":"device-1"},{"name":"d","device_id":""}]}`)
	id := s.Ports()[0].ID
	askNeutron(t, s, http.MethodGet, "ports/"+id+"?fields=id", "").is(200,
		`{"port":{"id":"`+id+`"}}`)
}

func TestSort_ByKeys(t *testing.T) {
	s := start(t)
	seedPorts(s)
	only := "name=a&name=b&name=c&name=d&"
	for query, want := range map[string]string{
		"sort_key=name&sort_dir=desc":                                           "d c b a",
		"sort_key=mac_address&sort_dir=desc&sort_key=name&sort_dir=asc":         "d c b a",
		"sort_key=status&sort_dir=desc&sort_key=name&sort_dir=desc":             "d c b a",
		"sort_key=admin_state_up&sort_dir=asc&sort_key=device_id&sort_dir=desc": "c b a d",
	} {
		if got := strings.Join(askNeutron(t, s, http.MethodGet, "ports?"+only+query,
			"").names("ports"), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	askNeutron(t, s, http.MethodGet, "ports?sort_key=name", "").refuses(400, "HTTPBadRequest",
		"must be same")
	askNeutron(t, s, http.MethodGet, "ports?sort_key=x&sort_dir=asc", "").refuses(400,
		"HTTPBadRequest", "invalid attribute for sort_keys")
	askNeutron(t, s, http.MethodGet, "ports?sort_key=name&sort_dir=up", "").refuses(400,
		"HTTPBadRequest", "invalid value for sort_dirs")
}

func TestPages_FollowTheLinks(t *testing.T) {
	s := start(t)
	at := newSite(s)
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprint("p", i))
		s.AddPort(Port{Name: want[i], NetworkID: at.internal})
	}
	for _, limit := range []int{0, 1, 7, 25, 100} {
		s.SetPageSize(10)
		page, err := ports.List(networkOf(t, s, s.Credentials()),
			ports.ListOpts{Limit: limit, NetworkID: at.internal, DeviceID: ""}).AllPages(
			t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := ports.ExtractPorts(page)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, port := range all {
			if port.DeviceID == "" {
				got = append(got, port.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}

func TestPages_Backwards(t *testing.T) {
	s := start(t)
	seedPorts(s)
	ids := map[string]string{}
	for _, port := range s.Ports() {
		ids[port.Name] = port.ID
	}
	query := url.Values{
		"name": {"a", "b", "c", "d"}, "limit": {"2"}, "marker": {ids["d"]},
		"page_reverse": {"True"},
	}
	got := askNeutron(t, s, http.MethodGet, "ports?"+query.Encode(), "").names("ports")
	if !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("the page before d: %q, want b and c", got)
	}
}

func TestPages_MarkerThatDoesNotPassTheFilter_IsAPlaceAllTheSame(t *testing.T) {
	s := start(t)
	seedPorts(s)
	ids := map[string]string{}
	for _, port := range s.Ports() {
		ids[port.Name] = port.ID
	}
	got := askNeutron(t, s, http.MethodGet, "ports?name=a&name=c&limit=5&marker="+ids["b"],
		"").names("ports")
	if !slices.Equal(got, []string{"c"}) {
		t.Errorf("after b: %q, want c", got)
	}
	askNeutron(t, s, http.MethodGet, "ports?limit=5&marker=none", "").refuses(404, "PortNotFound",
		"none")
	askNeutron(t, s, http.MethodGet, "ports?limit=-1", "").refuses(400, "BadRequest",
		"Limit must be an integer")
}

func TestList_WithFieldsOfManyDevices_IsOneRequest(t *testing.T) {
	s := start(t)
	at := newSite(s)
	query := url.Values{}
	for i := range 100 {
		device := fmt.Sprint("server-", i)
		s.AddPort(Port{Name: device, NetworkID: at.internal, DeviceID: device})
		query.Add("device_id", device)
	}
	s.ForgetCalls()
	if got := askNeutron(t, s, http.MethodGet, "ports?"+query.Encode(),
		"").names("ports"); len(got) != 100 {
		t.Errorf("%d ports of 100 devices", len(got))
	}
	if counts := s.Counts(); counts["port_list"] != 1 || len(counts) != 1 {
		t.Errorf("calls %v, want one port_list", counts)
	}
}
