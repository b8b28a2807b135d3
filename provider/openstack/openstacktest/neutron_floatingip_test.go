package openstacktest

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
)

func TestFloatingIP_Lifecycle(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	port := s.AddPort(Port{NetworkID: at.internal})
	second := s.AddPort(Port{NetworkID: at.internal})
	// The operator's router's gateway has the first address.
	ip, err := floatingips.Create(t.Context(), client,
		floatingips.CreateOpts{FloatingNetworkID: at.external}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if ip.FloatingIP != "203.0.113.3" || ip.Status != "DOWN" || ip.PortID != "" ||
		ip.ProjectID != s.Credentials().ProjectID {
		t.Errorf("created %+v", ip)
	}
	for _, id := range []string{port, second} {
		ip, err = floatingips.Update(t.Context(), client, ip.ID,
			floatingips.UpdateOpts{PortID: &id}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		if ip.PortID != id || ip.Status != "ACTIVE" || ip.RouterID != at.router ||
			ip.FixedIP == "" {
			t.Errorf("associated %+v", ip)
		}
	}
	none := ""
	if ip, err = floatingips.Update(t.Context(), client, ip.ID,
		floatingips.UpdateOpts{PortID: &none}).Extract(); err != nil {
		t.Fatal(err)
	}
	if ip.PortID != "" || ip.FixedIP != "" || ip.RouterID != "" || ip.Status != "DOWN" {
		t.Errorf("dissociated %+v", ip)
	}
	if err := floatingips.Delete(t.Context(), client, ip.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if len(s.FloatingIPs()) != 0 || len(s.portsNow(ip.ID)) != 0 {
		t.Errorf("left %v %v", s.FloatingIPs(), s.Ports())
	}
}

// portsNow are the ports of a device.
func (s *Cloud) portsNow(deviceID string) []*Port {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	return s.network.PortsOf(deviceID)
}

func TestFloatingIP_ThatCannotBe_IsRefused(t *testing.T) {
	s := start(t)
	at := newSite(s)
	lonely := s.AddNetwork(Network{})
	s.AddSubnet(Subnet{NetworkID: lonely, CIDR: "10.7.0.0/24"})
	behind := s.AddPort(Port{NetworkID: at.internal})
	unreachable := s.AddPort(Port{NetworkID: lonely})
	bare := s.AddPort(Port{NetworkID: at.internal, FixedIPs: []FixedIP{}})
	two := s.AddPort(Port{
		NetworkID: at.internal,
		FixedIPs:  []FixedIP{{Address: "10.0.0.50"}, {Address: "10.0.0.51"}},
	})
	taken := s.AddPort(Port{NetworkID: at.internal})
	s.AddFloatingIP(FloatingIP{NetworkID: at.external, PortID: taken})
	for name, c := range map[string]struct {
		attributes string
		status     int
		kind, text string
	}{
		"not external":     {`"floating_network_id":"` + at.internal + `"`, 400, "BadRequest", "is not a valid external network"},
		"no network":       {`"floating_network_id":"none"`, 404, "NetworkNotFound", "none"},
		"address chosen":   {`"floating_ip_address":"203.0.113.77"`, 403, "PolicyNotAuthorized", "create_floatingip:floating_ip_address"},
		"subnet elsewhere": {`"subnet_id":"` + at.subnet + `"`, 400, "InvalidInput", at.subnet},
		"no port":          {`"port_id":"00000000-0000-4000-8000-00000000dead"`, 404, "PortNotFound", "00000000-0000-4000-8000-00000000dead"},
		"no id":            {`"port_id":"none"`, 400, "HTTPBadRequest", "'none' is not a valid UUID"},
		"no router":        {`"port_id":"` + unreachable + `"`, 404, "ExternalGatewayForFloatingIPNotFound", "is not reachable from subnet"},
		"no address":       {`"port_id":"` + bare + `"`, 400, "BadRequest", "has no fixed IPv4 addresses"},
		"which address":    {`"port_id":"` + two + `"`, 400, "BadRequest", "multiple fixed IPv4 addresses"},
		"not its address":  {`"port_id":"` + behind + `","fixed_ip_address":"10.0.0.99"`, 400, "BadRequest", "does not have fixed ip 10.0.0.99"},
		"taken":            {`"port_id":"` + taken + `"`, 409, "FloatingIPPortAlreadyAssociated", "already has a floating IP on external network"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(s.Ports())
			askNeutron(t, s, http.MethodPost, "floatingips",
				`{"floatingip":{"floating_network_id":"`+at.external+`",`+c.attributes+`}}`).
				refuses(c.status, c.kind, c.text)
			if len(s.FloatingIPs()) != 1 || len(s.Ports()) != before {
				t.Error("a refused request left something")
			}
		})
	}
	askNeutron(t, s, http.MethodPost, "floatingips",
		`{"floatingip":{"floating_network_id":"`+at.external+`","port_id":"`+two+
			`","fixed_ip_address":"10.0.0.51"}}`).succeeds(201, "floatingip")
}

func TestFloatingIP_PoolExhausted_IsConflict(t *testing.T) {
	s := start(t)
	external := s.AddNetwork(Network{External: true})
	s.AddSubnet(Subnet{
		NetworkID: external, CIDR: "203.0.113.0/24",
		Pools: []AddressRange{{First: "203.0.113.10", Last: "203.0.113.11"}},
	})
	second := s.AddSubnet(Subnet{NetworkID: external, CIDR: "198.51.100.0/30"})
	create := func(more string) exchange {
		return askNeutron(t, s, http.MethodPost, "floatingips",
			`{"floatingip":{"floating_network_id":"`+external+`"`+more+`}}`)
	}
	for _, want := range []string{"203.0.113.10", "203.0.113.11"} {
		if got := create("").succeeds(201, "floatingip")["floating_ip_address"]; got != want {
			t.Errorf("address %v, want %s", got, want)
		}
	}
	if got := create(`,"subnet_id":"`+second+`"`).succeeds(201,
		"floatingip")["floating_ip_address"]; got != "198.51.100.2" {
		t.Errorf("address %v of the second subnet", got)
	}
	create("").refuses(409, "IpAddressGenerationFailure",
		"No more IP addresses available on network "+external)
}

func TestFloatingIP_AddressChosen_ByAdministratorsOrByPolicy(t *testing.T) {
	s := start(t, WithUserChosenAddresses())
	at := newSite(s)
	body := `{"floatingip":{"floating_network_id":"` + at.external +
		`","floating_ip_address":"203.0.113.77"}}`
	if got := askNeutron(t, s, http.MethodPost, "floatingips", body).succeeds(201,
		"floatingip")["floating_ip_address"]; got != "203.0.113.77" {
		t.Errorf("address %v", got)
	}
	askNeutron(t, s, http.MethodPost, "floatingips", body).refuses(409, "IpAddressAlreadyAllocated",
		"203.0.113.77")
}

func TestFloatingIP_FoundByItsAddressAndPort(t *testing.T) {
	s := start(t)
	at := newSite(s)
	port := s.AddPort(Port{NetworkID: at.internal})
	id := s.AddFloatingIP(FloatingIP{NetworkID: at.external, PortID: port})
	s.AddFloatingIP(FloatingIP{NetworkID: at.external})
	for _, opts := range []floatingips.ListOpts{
		{PortID: port},
		{FloatingIP: "203.0.113.3"},
		{Status: "ACTIVE"},
		{RouterID: at.router},
	} {
		page, err := floatingips.List(networkOf(t, s, s.Credentials()), opts).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if all, err := floatingips.ExtractFloatingIPs(page); err != nil || len(all) != 1 ||
			all[0].ID != id {
			t.Errorf("%+v: %v %v", opts, all, err)
		}
	}
}

func TestFloatingIP_PortDeleted_StaysWithoutOne(t *testing.T) {
	s := start(t)
	at := newSite(s)
	port := s.AddPort(Port{NetworkID: at.internal})
	s.AddFloatingIP(FloatingIP{NetworkID: at.external, PortID: port})
	askNeutron(t, s, http.MethodDelete, "ports/"+port, "").succeeds(204, "")
	if ip := s.FloatingIPs()[0]; ip.PortID != "" || ip.FixedAddress != "" || ip.Status != "DOWN" ||
		ip.RouterID != "" {
		t.Errorf("floating IP %+v", ip)
	}
	if err := s.UpdateFloatingIP(s.FloatingIPs()[0].ID,
		func(ip *FloatingIP) { ip.PortID = "none" }); err == nil {
		t.Error("a change from outside broke the API's rules")
	}
}
