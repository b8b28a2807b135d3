package openstacktest

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// addressesOf are the addresses of a port in the API's form.
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

func TestMethods_FollowTheRulesOfTheAPI(t *testing.T) {
	s := start(t)
	at := newSite(s)
	port := s.AddPort(Port{NetworkID: at.internal})
	group := s.SecurityGroups()[0].ID
	second := s.AddSubnet(Subnet{NetworkID: at.internal, CIDR: "10.4.0.0/24"})
	for name, err := range map[string]error{
		"group in use":   s.DeleteSecurityGroup(group),
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
		func() error { return s.DeletePort(port) },
		func() error { return s.DeleteSecurityGroup(group) },
		func() error { return s.DeleteRouter(at.router) },
	} {
		if err := step(); err != nil {
			t.Error(err)
		}
	}
	if len(s.SecurityGroupRules()) != 0 || len(s.Ports()) != 0 {
		t.Errorf("left: %v %v", s.SecurityGroupRules(), s.Ports())
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

func TestService_MethodsForOtherServices(t *testing.T) {
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
		t.Error("two ports have the same address")
	}
	if err := n.RemovePort(port.ID); err != nil || len(n.PortsOf("lb-1")) != 0 {
		t.Errorf("delete: %v, left %v", err, n.PortsOf("lb-1"))
	}
	if err := n.RemovePort(port.ID); err == nil {
		t.Error("a port was deleted twice")
	}
}
