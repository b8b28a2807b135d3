package openstacktest

import (
	"net/http"
	"testing"
)

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
		t.Error("a change by a method broke the API's rules")
	}
}
