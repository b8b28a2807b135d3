package openstacktest

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// addressesOf are the addresses of a port as the API shows it.
func addressesOf(port map[string]any) (all []string) {
	for _, ip := range port["fixed_ips"].([]any) {
		all = append(all, ip.(map[string]any)["ip_address"].(string))
	}
	return all
}

func TestPort_WithoutAddresses_HasOneOfEachFamily(t *testing.T) {
	s := start(t)
	at := newSite(s)
	s.AddSubnet(Subnet{NetworkID: at.internal, CIDR: "fd00:1::/64"})
	s.AddSubnet(Subnet{
		NetworkID: at.internal, CIDR: "10.5.0.0/24",
		ServiceTypes: []string{"compute:other"},
	})
	create := func(attributes string) []string {
		return addressesOf(askNeutron(t, s, http.MethodPost, "ports",
			`{"port":{"network_id":"`+at.internal+`"`+attributes+`}}`).succeeds(201, "port"))
	}
	for _, c := range []struct {
		attributes string
		want       []string
	}{
		{"", []string{"10.0.0.2", "fd00:1::1"}},
		{`,"fixed_ips":[]`, nil},
		{`,"fixed_ips":[{"subnet_id":"` + at.subnet + `"}]`, []string{"10.0.0.3"}},
		{`,"fixed_ips":[{"ip_address":"10.0.0.200"}]`, []string{"10.0.0.200"}},
		{`,"fixed_ips":[{"subnet_id":"` + at.subnet + `"},{"subnet_id":"` + at.subnet + `"}]`, []string{"10.0.0.4", "10.0.0.5"}},
		{`,"fixed_ips":[{"ip_address":"10.5.0.9"}]`, []string{"10.5.0.9"}},
	} {
		if got := create(c.attributes); !slices.Equal(got, c.want) {
			t.Errorf("with %s: %q, want %q", c.attributes, got, c.want)
		}
	}
}

func TestPort_WithAddressItCannotHave_IsRefused(t *testing.T) {
	s := start(t)
	at := newSite(s)
	s.AddPort(Port{NetworkID: at.internal, FixedIPs: []FixedIP{{Address: "10.0.0.9"}}})
	for name, c := range map[string]struct {
		fixed      string
		status     int
		kind, text string
	}{
		"taken":            {`{"ip_address":"10.0.0.9"}`, 409, "IpAddressAlreadyAllocated", "10.0.0.9 already allocated in subnet " + at.subnet},
		"the router's":     {`{"ip_address":"10.0.0.1"}`, 409, "IpAddressAlreadyAllocated", "10.0.0.1"},
		"twice":            {`{"ip_address":"10.0.0.8"},{"ip_address":"10.0.0.8"}`, 409, "IpAddressAlreadyAllocated", "10.0.0.8"},
		"of no subnet":     {`{"ip_address":"10.8.0.1"}`, 400, "InvalidIpForNetwork", "10.8.0.1 is not a valid IP for any of the subnets"},
		"of other subnet":  {`{"subnet_id":"` + at.subnet + `","ip_address":"10.8.0.1"}`, 400, "InvalidIpForSubnet", "10.8.0.1"},
		"broadcast":        {`{"ip_address":"10.0.0.255"}`, 400, "InvalidIpForNetwork", "10.0.0.255"},
		"no address":       {`{"ip_address":"x"}`, 400, "HTTPBadRequest", "'x' is not a valid IP address"},
		"subnet elsewhere": {`{"subnet_id":"` + at.externalSubnet + `"}`, 404, "SubnetNotFound", at.externalSubnet},
		"no such subnet":   {`{"subnet_id":"none"}`, 404, "SubnetNotFound", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(s.Ports())
			askNeutron(t, s, http.MethodPost, "ports",
				`{"port":{"network_id":"`+at.internal+`","fixed_ips":[`+c.fixed+`]}}`).
				refuses(c.status, c.kind, c.text)
			if len(s.Ports()) != before {
				t.Error("there is a port of a refused request")
			}
		})
	}
}

func TestPort_SubnetExhausted_IsConflictUntilAPortIsDeleted(t *testing.T) {
	s := start(t)
	id := s.AddNetwork(Network{})
	s.AddSubnet(Subnet{NetworkID: id, CIDR: "10.0.0.0/29"})
	var last string
	for range 5 {
		last = s.AddPort(Port{NetworkID: id})
	}
	body := `{"port":{"network_id":"` + id + `"}}`
	askNeutron(t, s, http.MethodPost, "ports", body).refuses(409, "IpAddressGenerationFailure",
		"No more IP addresses available on network "+id)
	askNeutron(t, s, http.MethodDelete, "ports/"+last, "").succeeds(204, "")
	askNeutron(t, s, http.MethodPost, "ports", body).succeeds(201, "port")
}

func TestPort_Update_MovesAddressesAndStatus(t *testing.T) {
	s := start(t)
	at := newSite(s)
	id := s.AddPort(Port{NetworkID: at.internal})
	put := func(attributes string) map[string]any {
		return askNeutron(t, s, http.MethodPut, "ports/"+id,
			`{"port":{`+attributes+`}}`).succeeds(200, "port")
	}
	// That a user names a device binds the port to no host.
	if got := put(`"device_id":"server","device_owner":"compute:az"`)["status"]; got != "DOWN" {
		t.Errorf("status with a device: %v", got)
	}
	// A service does.
	for _, device := range []string{"", "server"} {
		if err := s.UpdatePort(id, func(p *Port) { p.DeviceID = device }); err != nil {
			t.Fatal(err)
		}
	}
	if got := put(`"name":"bound"`)["status"]; got != "ACTIVE" {
		t.Errorf("status with a device, bound: %v", got)
	}
	if got := put(`"admin_state_up":false`)["status"]; got != "DOWN" {
		t.Errorf("status of a port that is down: %v", got)
	}
	if got := addressesOf(
		put(`"fixed_ips":[{"ip_address":"10.0.0.50"},{"ip_address":"10.0.0.2"}]`)); !slices.Equal(
		got, []string{"10.0.0.50", "10.0.0.2"}) {
		t.Errorf("addresses %q", got)
	}
	put(`"fixed_ips":[{"ip_address":"10.0.0.50"}]`)
	// The address is free again.
	s.AddPort(Port{NetworkID: at.internal, FixedIPs: []FixedIP{{Address: "10.0.0.2"}}})
	if got := len(
		askNeutron(t, s, http.MethodGet, "ports?device_id=server", "").names("ports")); got != 1 {
		t.Errorf("%d ports of the device", got)
	}
	put(`"device_id":""`)
	if got := len(
		askNeutron(t, s, http.MethodGet, "ports?device_id=server", "").names("ports")); got != 0 {
		t.Errorf("%d ports of a device that has none", got)
	}
}

func TestAddressPairs_AreCheckedAndCompleted(t *testing.T) {
	s := start(t)
	at := newSite(s)
	id := s.AddPort(Port{NetworkID: at.internal, MACAddress: "fa:16:3e:00:00:aa"})
	put := func(attributes string) exchange {
		return askNeutron(t, s, http.MethodPut, "ports/"+id, `{"port":{`+attributes+`}}`)
	}
	pairs := func(list string) exchange { return put(`"allowed_address_pairs":[` + list + `]`) }

	got := fmt.Sprint(
		pairs(
			`{"ip_address":"10.9.0.0/24"},{"ip_address":"fd00::1","mac_address":"fa:16:3e:00:00:bb"}`).
			succeeds(200, "port")["allowed_address_pairs"])
	want := "[map[ip_address:10.9.0.0/24 mac_address:fa:16:3e:00:00:aa] map[ip_address:fd00::1 mac_address:fa:16:3e:00:00:bb]]"
	if got != want {
		t.Errorf("pairs\n%s, want\n%s", got, want)
	}
	eleven := ""
	for i := range 11 {
		eleven += fmt.Sprintf(`{"ip_address":"10.9.%d.0/24"},`, i)
	}
	for name, c := range map[string]struct {
		answer     exchange
		status     int
		kind, text string
	}{
		"no address":  {pairs(`{"mac_address":"fa:16:3e:00:00:bb"}`), 400, "AllowedAddressPairsMissingIP", "must contain ip_address"},
		"a bad one":   {pairs(`{"ip_address":"x"}`), 400, "HTTPBadRequest", "'x' is not a valid IP address"},
		"another key": {pairs(`{"ip_address":"10.9.0.1","x":"y"}`), 400, "HTTPBadRequest", "Unrecognized attribute(s) 'x'"},
		"twice":       {pairs(`{"ip_address":"10.9.0.1"},{"ip_address":"10.9.0.1"}`), 400, "DuplicateAddressPairInRequest", "10.9.0.1"},
		"too many":    {pairs(eleven[:len(eleven)-1]), 400, "AllowedAddressPairExhausted", "maximum 10"},
		"no list":     {put(`"allowed_address_pairs":7`), 400, "HTTPBadRequest", "must be a list"},
		"unprotected": {put(`"port_security_enabled":false,"security_groups":[]`), 409, "AddressPairAndPortSecurityRequired", "Port Security must be enabled"},
		"still groups": {
			put(`"port_security_enabled":false,"allowed_address_pairs":[]`), 409,
			"PortSecurityPortHasSecurityGroup", "until security group is removed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.answer.t = t
			c.answer.refuses(c.status, c.kind, c.text)
		})
	}
	if got := fmt.Sprint(askNeutron(t, s, http.MethodGet, "ports/"+id, "").succeeds(200,
		"port")["allowed_address_pairs"]); got != want {
		t.Errorf("refused changes have changed the pairs: %s", got)
	}
	put(`"port_security_enabled":false,"security_groups":[],"allowed_address_pairs":[]`).succeeds(
		200, "port")
	pairs(`{"ip_address":"10.9.0.0/24"}`).refuses(409, "AddressPairAndPortSecurityRequired", "")
	put(`"security_groups":["`+s.AddSecurityGroup(SecurityGroup{Name: "g"})+`"]`).refuses(400,
		"PortSecurityAndIPRequiredForSecurityGroups", "")
}

func TestPort_OfNetworkWithoutPortSecurity_HasNone(t *testing.T) {
	s := start(t)
	id := s.AddNetwork(Network{NoPortSecurity: true})
	port := askNeutron(t, s, http.MethodPost, "ports",
		`{"port":{"network_id":"`+id+`"}}`).succeeds(201, "port")
	if port["port_security_enabled"] != false || len(port["security_groups"].([]any)) != 0 {
		t.Errorf("port security %v with groups %v", port["port_security_enabled"],
			port["security_groups"])
	}
	port = askNeutron(t, s, http.MethodPost, "ports",
		`{"port":{"network_id":"`+id+`","port_security_enabled":true}}`).succeeds(201, "port")
	if port["port_security_enabled"] != true {
		t.Error("port security is on")
	}
}

func TestPort_IfMatch_WithGophercloud(t *testing.T) {
	s := start(t)
	at := newSite(s)
	id := s.AddPort(Port{NetworkID: at.internal})
	client := networkOf(t, s, s.Credentials())
	port, err := ports.Get(t.Context(), client, id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	pairs := []ports.AddressPair{{IPAddress: "10.9.0.0/24"}}
	update := ports.UpdateOpts{AllowedAddressPairs: &pairs, RevisionNumber: &port.RevisionNumber}
	changed, err := ports.Update(t.Context(), client, id, update).Extract()
	if err != nil || changed.RevisionNumber <= port.RevisionNumber {
		t.Fatalf("update of revision %d: %v, revision %d", port.RevisionNumber, err,
			changed.RevisionNumber)
	}
	if changed.AllowedAddressPairs[0].MACAddress != port.MACAddress {
		t.Errorf("pair %+v", changed.AllowedAddressPairs[0])
	}
	if _, err := ports.Update(t.Context(), client, id, update).Extract(); err == nil {
		t.Error("the second update of the same revision was not refused")
	}
	if err := s.UpdatePort(id, func(p *Port) { p.AllowedPairs = nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.Ports(); got[len(got)-1].RevisionNumber <= changed.RevisionNumber {
		t.Error("a change from outside did not count")
	}
}

func TestPort_CreatedWithTags_HasNone(t *testing.T) {
	s := start(t)
	at := newSite(s)
	port := askNeutron(t, s, http.MethodPost, "ports",
		`{"port":{"network_id":"`+at.internal+`","tags":["x"]}}`).succeeds(201, "port")
	if fmt.Sprint(port["tags"]) != "[]" {
		t.Errorf("tags %v", port["tags"])
	}
	askNeutron(t, s, http.MethodPut, "ports/"+port["id"].(string),
		`{"port":{"tags":[]}}`).refuses(400, "HTTPBadRequest", "read-only attribute tags")
}

func TestFromOutside_ByTheRulesOfTheAPI(t *testing.T) {
	s := start(t)
	at := newSite(s)
	port := s.AddPort(Port{NetworkID: at.internal})
	trunk := s.AddTrunk(Trunk{PortID: port})
	group := s.SecurityGroups()[0].ID
	second := s.AddSubnet(Subnet{NetworkID: at.internal, CIDR: "10.4.0.0/24"})
	for name, err := range map[string]error{
		"subnet in use":  s.DeleteSubnet(at.subnet),
		"network in use": s.DeleteNetwork(at.internal),
		"port in use":    s.DeletePort(port),
		"group in use":   s.DeleteSecurityGroup(group),
		"no such rule":   s.DeleteSecurityGroupRule("none"),
		"no such router": s.ConnectSubnet("none", second),
		"bad pair": s.UpdatePort(port,
			func(p *Port) { p.AllowedPairs = []AddressPair{{Address: "x"}} }),
		"no such port": s.UpdatePort("none", func(*Port) {}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, step := range []func() error{
		func() error { return s.ConnectSubnet(at.router, second) },
		func() error { return s.DeleteTrunk(trunk) },
		func() error { return s.DeletePort(port) },
		func() error { return s.DeleteSecurityGroupRule(s.SecurityGroupRules()[0].ID) },
		func() error { return s.DeleteSecurityGroup(group) },
		func() error { return s.DeleteRouter(at.router) },
		func() error { return s.DeleteSubnet(second) },
		func() error { return s.DeleteNetwork(at.internal) },
	} {
		if err := step(); err != nil {
			t.Error(err)
		}
	}
	if len(s.Trunks()) != 0 || len(s.SecurityGroupRules()) != 0 || len(s.Networks()) != 1 ||
		len(s.Subnets()) != 1 {
		t.Errorf("left: %v %v %v %v", s.Trunks(), s.SecurityGroupRules(), s.Networks(), s.Subnets())
	}
}

func TestPort_InUse_IsNotDeleted(t *testing.T) {
	s := start(t)
	at := newSite(s)
	for _, port := range s.Ports() {
		if port.DeviceOwner == OwnerInterface {
			askNeutron(t, s, http.MethodDelete, "ports/"+port.ID, "").
				refuses(409, "ServicePortInUse",
					"cannot be deleted directly via the port API: has device owner network:router_interface")
		}
	}
	s.AddPort(Port{NetworkID: at.internal})
	askNeutron(t, s, http.MethodDelete, "networks/"+at.internal, "").refuses(409, "NetworkInUse",
		"one or more ports still in use")
	askNeutron(t, s, http.MethodDelete, "subnets/"+at.subnet, "").refuses(409, "SubnetInUse",
		"have an IP allocation from this subnet")
}

func TestNetwork_Deleted_TakesItsSubnets(t *testing.T) {
	s := start(t)
	id := s.AddNetwork(Network{})
	s.AddSubnet(Subnet{NetworkID: id, CIDR: "10.0.0.0/24"})
	s.AddPort(Port{NetworkID: id, DeviceOwner: "network:dhcp"})
	askNeutron(t, s, http.MethodDelete, "networks/"+id, "").succeeds(204, "")
	if len(s.Subnets()) != 0 || len(s.Ports()) != 0 {
		t.Errorf("left: %v %v", s.Subnets(), s.Ports())
	}
}

func TestSubnet_Defaults(t *testing.T) {
	s := start(t)
	id := s.AddNetwork(Network{})
	for _, c := range []struct{ cidr, attributes, gateway, pools string }{
		{"10.0.0.0/24", ``, "10.0.0.1", "[{10.0.0.2 10.0.0.254}]"},
		{"10.1.0.0/24", `,"gateway_ip":"10.1.0.9"`, "10.1.0.9", "[{10.1.0.1 10.1.0.8} {10.1.0.10 10.1.0.254}]"},
		{"10.2.0.0/24", `,"gateway_ip":null`, "", "[{10.2.0.1 10.2.0.254}]"},
		{"10.3.0.7/24", `,"allocation_pools":[{"start":"10.3.0.5","end":"10.3.0.6"}]`, "10.3.0.1", "[{10.3.0.5 10.3.0.6}]"},
		{"fd00::/64", ``, "fd00::", "[{fd00::1 fd00::ffff:ffff:ffff:ffff}]"},
	} {
		version := "4"
		if c.cidr == "fd00::/64" {
			version = "6"
		}
		made := askNeutron(t, s, http.MethodPost, "subnets",
			`{"subnet":{"network_id":"`+id+`","ip_version":`+version+`,"cidr":"`+c.cidr+`"`+
				c.attributes+`}}`).
			succeeds(201, "subnet")
		subnet, err := subnets.Get(t.Context(), networkOf(t, s, s.Credentials()),
			made["id"].(string)).Extract()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(subnet.AllocationPools); subnet.GatewayIP != c.gateway ||
			got != c.pools {
			t.Errorf("%s%s: gateway %q, pools %s; want %q, %s", c.cidr, c.attributes,
				subnet.GatewayIP, got, c.gateway, c.pools)
		}
	}
}

func TestSubnet_NotAsTheAPIWantsIt_IsRefused(t *testing.T) {
	s := start(t)
	at := newSite(s)
	for name, c := range map[string]struct {
		attributes string
		status     int
		kind       string
	}{
		"no CIDR":            {`"ip_version":4`, 400, "BadRequest"},
		"a bad CIDR":         {`"ip_version":4,"cidr":"x"`, 400, "InvalidInput"},
		"other family":       {`"ip_version":6,"cidr":"10.9.0.0/24"`, 400, "InvalidInput"},
		"overlap":            {`"ip_version":4,"cidr":"10.0.0.128/25"`, 400, "InvalidInput"},
		"pool outside":       {`"ip_version":4,"cidr":"10.9.0.0/24","allocation_pools":[{"start":"10.8.0.1","end":"10.9.0.1"}]`, 400, "OutOfBoundsAllocationPool"},
		"pool backwards":     {`"ip_version":4,"cidr":"10.9.0.0/24","allocation_pools":[{"start":"10.9.0.9","end":"10.9.0.2"}]`, 400, "InvalidAllocationPool"},
		"pool with gateway":  {`"ip_version":4,"cidr":"10.9.0.0/24","allocation_pools":[{"start":"10.9.0.1","end":"10.9.0.2"}]`, 409, "GatewayConflictWithAllocationPools"},
		"gateway no address": {`"ip_version":4,"cidr":"10.9.0.0/24","gateway_ip":"x"`, 400, "HTTPBadRequest"},
		"unknown network":    {`"ip_version":4,"cidr":"10.9.0.0/24","network_id":"none"`, 404, "NetworkNotFound"},
		"network of others":  {`"ip_version":4,"cidr":"10.9.0.0/24","network_id":"` + at.external + `"`, 403, "PolicyNotAuthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			askNeutron(t, s, http.MethodPost, "subnets",
				`{"subnet":{"network_id":"`+at.internal+`",`+c.attributes+`}}`).refuses(c.status,
				c.kind, "")
		})
	}
}

func TestService_WaysIn(t *testing.T) {
	s := start(t)
	at := newSite(s)
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	n := s.network
	port, err := n.CreatePort(Port{
		NetworkID: at.internal, DeviceID: "lb-1",
		DeviceOwner: OwnerLoadBalancer, ProjectID: "p",
	})
	if err != nil {
		t.Fatal(err)
	}
	if of := n.PortsOf("lb-1"); len(of) != 1 || of[0] != port {
		t.Errorf("ports of the load balancer: %v", of)
	}
	if _, err := n.CreatePort(Port{NetworkID: at.internal, FixedIPs: port.FixedIPs}); err == nil {
		t.Error("two ports have one address")
	}
	if err := n.RemovePort(port.ID); err != nil || len(n.PortsOf("lb-1")) != 0 {
		t.Errorf("delete: %v, left %v", err, n.PortsOf("lb-1"))
	}
	if err := n.RemovePort(port.ID); err == nil {
		t.Error("a port was deleted twice")
	}
}
