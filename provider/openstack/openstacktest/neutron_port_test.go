package openstacktest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

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
