package neutron

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestSubnet_IsRememberedForAWhile(t *testing.T) {
	s := newSite(t)
	id := s.AddSubnet(openstacktest.Subnet{
		Name: "v6", NetworkID: s.internal, CIDR: "fd00::/64",
		Tags: []string{"a"},
	})
	for range 3 {
		got, err := s.Subnet(t.Context(), id)
		s.must(err)
		if got.ID != id || got.Name != "v6" || got.NetworkID != s.internal ||
			got.CIDR != "fd00::/64" || !got.IPv6 || !slices.Equal(got.Tags, []string{"a"}) {
			t.Errorf("found %+v", got)
		}
	}
	s.wantCalls(map[string]int{"subnet_list": 1})
	s.clock.SetTime(s.clock.Now().Add(subnetAge))
	_, err := s.Subnet(t.Context(), id)
	s.must(err)
	s.wantCalls(map[string]int{"subnet_list": 2})
}

func TestSubnet_None_IsNotRemembered(t *testing.T) {
	s := newSite(t)
	id := "00000000-0000-4000-8000-0000000000aa"
	if _, err := s.Subnet(t.Context(), id); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v", err)
	}
	s.AddSubnet(openstacktest.Subnet{ID: id, NetworkID: s.internal, CIDR: "10.9.0.0/24"})
	if _, err := s.Subnet(t.Context(), id); err != nil {
		t.Errorf("the subnet exists now: %v", err)
	}
	s.Inject(openstacktest.Fault{Operation: "subnet_list", Times: 1, Status: 500})
	if _, err := s.Subnet(t.Context(), s.subnet); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("error %v, want Neutron's", err)
	}
	if _, err := s.Subnet(t.Context(), s.subnet); err != nil {
		t.Errorf("a failure was cached: %v", err)
	}
}

func TestSubnet_ManyAtOnce_ShareAList(t *testing.T) {
	s := newSite(t)
	var all []string
	for i := range 20 {
		all = append(all,
			s.AddSubnet(
				openstacktest.Subnet{NetworkID: s.internal, CIDR: fmt.Sprintf("10.9.%d.0/24", i)}))
	}
	s.ForgetCalls()
	s.Inject(openstacktest.Fault{Operation: "subnet_list", Times: 1, Delay: 300 * time.Millisecond})
	failed := atOnce(200, func(i int) error {
		got, err := s.Subnet(t.Context(), all[i%20])
		if err == nil && got.ID != all[i%20] {
			err = fmt.Errorf("got %s for %s", got.ID, all[i%20])
		}
		return err
	})
	if len(failed) > 0 {
		t.Fatal(failed[0])
	}
	if n := s.Counts()["subnet_list"]; n > 4 {
		t.Errorf("200 callers at once cost %d lists", n)
	}
}

// IDs are random.
func TestSubnets_OfANetwork_TheOldestIsTheFirst(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Now())
	s := newSite(t, openstacktest.WithClock(now))
	var want []string
	for _, id := range []string{
		"ffffffff-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002",
	} {
		now.SetTime(now.Now().Add(time.Minute))
		want = append(want, s.AddSubnet(openstacktest.Subnet{
			ID: id, NetworkID: s.internal, CIDR: fmt.Sprintf("fd0%d::/64", len(want)),
		}))
	}
	want = append([]string{s.subnet}, want...)
	s.ForgetCalls()
	for range 2 {
		found, err := s.Subnets(t.Context(), s.internal)
		s.must(err)
		if !slices.Equal(ids(found), want) {
			t.Errorf("found %v, want %v", ids(found), want)
		}
	}
	s.wantCalls(map[string]int{"subnet_list": 1})
	empty := s.AddNetwork(openstacktest.Network{Name: "empty"})
	for range 2 {
		if found, err := s.Subnets(t.Context(), empty); err != nil || len(found) != 0 {
			t.Errorf("found %v, error %v", found, err)
		}
	}
	s.wantCalls(map[string]int{"subnet_list": 3})
}

func TestExternalNetwork_IsOneFilteredListAndItsSubnets_AndRemembered(t *testing.T) {
	s := newSite(t)
	for range 3 {
		id, err := s.ExternalNetwork(t.Context(), "", "")
		if err != nil || id != s.external {
			t.Errorf("found %q, error %v", id, err)
		}
	}
	s.wantCalls(map[string]int{"network_list": 1, "subnet_list": 1})
	for _, c := range s.Calls() {
		if c.Operation == "network_list" &&
			c.Query != "fields=id&fields=subnets&router%3Aexternal=true" {
			t.Errorf("the query is %s", c.Query)
		}
	}
	s.clock.SetTime(s.clock.Now().Add(networkAge))
	if _, err := s.ExternalNetwork(t.Context(), "", ""); err != nil {
		t.Error(err)
	}
	s.wantCalls(map[string]int{"network_list": 2, "subnet_list": 2})
}

func TestExternalNetwork_IPv6Only_IsSkipped(t *testing.T) {
	s := newSite(t)
	first := s.AddNetwork(openstacktest.Network{
		ID:       "00000000-0000-0000-0000-000000000001",
		External: true, Shared: true,
	})
	s.AddSubnet(openstacktest.Subnet{NetworkID: first, CIDR: "2001:db8::/64"})
	if id, err := s.ExternalNetwork(t.Context(), "", ""); err != nil || id != s.external {
		t.Errorf("found %q, error %v, want %q", id, err, s.external)
	}
}

func TestExternalNetwork_None_IsEmptyAndRemembered(t *testing.T) {
	s := newSite(t)
	s.Inject(openstacktest.Fault{
		Operation: "network_list",
		Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
			return 200, []byte(`{"networks":[]}`)
		},
	})
	for range 2 {
		if id, err := s.ExternalNetwork(t.Context(), "", ""); err != nil || id != "" {
			t.Errorf("found %q, error %v", id, err)
		}
	}
	s.wantCalls(map[string]int{"network_list": 1})
}

func TestGivesFloatingIPs_EachNetwork_IsUsableOrNot(t *testing.T) {
	v4, v6 := Subnet{}, Subnet{IPv6: true}
	for name, c := range map[string]struct {
		has  []string
		seen []Subnet
		want bool
	}{
		"IPv4":           {[]string{"a"}, []Subnet{v4}, true},
		"both":           {[]string{"a", "b"}, []Subnet{v6, v4}, true},
		"IPv6":           {[]string{"a"}, []Subnet{v6}, false},
		"hidden subnets": {[]string{"a"}, nil, true},
		"no subnets":     {nil, nil, false},
	} {
		if got := givesFloatingIPs(externalNetwork{ID: "n", Subnets: c.has},
			c.seen); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The router has the address .254 in each subnet.
func TestIsNextHop_EachSubnet_IsByHostRoutesAndGateway(t *testing.T) {
	s := newSite(t)
	const router, other = "10.9.0.254", "10.9.0.253"
	to := func(destination, hop string) openstacktest.Route {
		return openstacktest.Route{Destination: destination, NextHop: hop}
	}
	for name, c := range map[string]struct {
		subnet openstacktest.Subnet
		// isHop is the answer for the range of the pods, isGateway that without a range.
		isHop, isGateway bool
	}{
		"gateway":         {openstacktest.Subnet{Gateway: router}, true, true},
		"another gateway": {openstacktest.Subnet{}, false, false},
		"no gateway":      {openstacktest.Subnet{NoGateway: true}, false, true},
		"route": {openstacktest.Subnet{
			HostRoutes: []openstacktest.Route{to("10.244.0.0/16", router)},
		}, true, false},
		"route around": {openstacktest.Subnet{
			HostRoutes: []openstacktest.Route{to("10.0.0.0/8", router)},
		}, true, false},
		"route of a part": {openstacktest.Subnet{
			HostRoutes: []openstacktest.Route{to("10.244.1.0/24", router)},
		}, false, false},
		"route of another range": {openstacktest.Subnet{
			HostRoutes: []openstacktest.Route{to("10.245.0.0/16", router)},
		}, false, false},
		"gateway, and a route elsewhere": {openstacktest.Subnet{
			Gateway: router, HostRoutes: []openstacktest.Route{to("10.244.0.0/16", other)},
		}, false, true},
		"two routes": {openstacktest.Subnet{HostRoutes: []openstacktest.Route{
			to("10.244.0.0/16", router), to("10.0.0.0/8", other),
		}}, true, false},
	} {
		c.subnet.NetworkID = s.AddNetwork(openstacktest.Network{})
		c.subnet.CIDR = "10.9.0.0/24"
		subnet := s.AddSubnet(c.subnet)
		id := s.AddRouter(openstacktest.Router{})
		for address, device := range map[string]string{
			router: id, other: s.AddRouter(openstacktest.Router{}),
		} {
			s.AddPort(openstacktest.Port{
				NetworkID: c.subnet.NetworkID, DeviceID: device,
				DeviceOwner: "network:router_interface",
				FixedIPs:    []openstacktest.FixedIP{{SubnetID: subnet, Address: address}},
			})
		}
		for pods, want := range map[netip.Prefix]bool{
			netip.MustParsePrefix("10.244.0.0/16"): c.isHop, {}: c.isGateway,
		} {
			got, err := s.IsNextHop(t.Context(), subnet, id, pods)
			if err != nil || got != want {
				t.Errorf("%s, to %s: %t, %v", name, pods, got, err)
			}
		}
	}
}

// The gateway of an IPv6 subnet may be the link-local address of the router.
func TestIsNextHop_GatewayIsLinkLocal_APortOfTheRouterIsEnough(t *testing.T) {
	s := newSite(t)
	subnet := s.AddSubnet(openstacktest.Subnet{
		NetworkID: s.internal, CIDR: "fd00::/64", Gateway: "fe80::1",
	})
	id := s.AddRouter(openstacktest.Router{})
	s.AddPort(openstacktest.Port{
		NetworkID: s.internal, DeviceID: id, DeviceOwner: "network:router_interface",
		FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet, Address: "fd00::9"}},
	})
	pods := netip.MustParsePrefix("fd00:244::/56")
	for router, want := range map[string]bool{
		id: true, s.AddRouter(openstacktest.Router{}): false,
	} {
		if got, err := s.IsNextHop(t.Context(), subnet, router, pods); err != nil || got != want {
			t.Errorf("%t, %v, want %t", got, err, want)
		}
	}
}
