package openstacktest

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// seedPorts creates the ports a, b, c and d, which differ in all attributes that are filtered.
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

func TestFilter_EmptyWithoutTheExtension_IsIgnored(t *testing.T) {
	s := start(t, WithoutExtensions("empty-string-filtering"))
	seedPorts(s)
	all := len(askNeutron(t, s, http.MethodGet, "ports", "").names("ports"))
	if got := len(
		askNeutron(t, s, http.MethodGet, "ports?device_id=", "").names("ports")); got != all {
		t.Errorf("%d ports with an empty filter, want all %d", got, all)
	}
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
