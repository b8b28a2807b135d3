package desired

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func internal(in *Input) { in.Settings.Internal = true }

func v6(in *Input) {
	withFamilies(v1.IPv6Protocol)(in)
	withNodes(node("n1", "fd00::1"))(in)
}

func existing(in *Input) { in.LoadBalancerName = in.Identity.LoadBalancerName() }

// OCCM does not compare these after the creation of the load balancer.
func TestImmutableSettings_AreDesired(t *testing.T) {
	t.Parallel()
	d, notices := build(t, internal, existing, withSettings(func(s *settings.Settings) {
		s.Address, s.FlavorID, s.AvailabilityZone, s.Provider = "10.0.0.9", "flavor", "zone",
			"amphora"
		s.SubnetID, s.NetworkID = "asked subnet", "asked network"
	}))
	wantTold(t, notices)
	lb := d.LoadBalancer
	if want := (octavia.VIP{
		Address: "10.0.0.9", SubnetID: "asked subnet",
		NetworkID: "asked network",
	}); lb.VIP != want {
		t.Errorf("VIP %+v, want %+v", lb.VIP, want)
	}
	if lb.FlavorID != "flavor" || lb.AvailabilityZone != "zone" || lb.Provider != "amphora" {
		t.Errorf("%+v", lb)
	}
	d, _ = build(t, existing, withSettings(func(s *settings.Settings) { s.PortID = "asked port" }))
	if want := (octavia.VIP{PortID: "asked port"}); d.LoadBalancer.VIP != want {
		t.Errorf("VIP %+v, want %+v", d.LoadBalancer.VIP, want)
	}
}

func TestVIP_IsInTheRequestedElseFoundPlace(t *testing.T) {
	t.Parallel()
	found := octavia.VIP{SubnetID: "found subnet", NetworkID: "found network"}
	there := octavia.VIP{
		Address: "10.0.0.9", PortID: "its port", SubnetID: "found subnet",
		NetworkID: "found network",
	}
	type S = settings.Settings
	for name, test := range map[string]struct {
		asked       S
		found, want octavia.VIP
	}{
		"nothing asked":               {S{}, found, octavia.VIP{SubnetID: "found subnet"}},
		"nothing asked, it is there":  {S{}, there, octavia.VIP{SubnetID: "found subnet"}},
		"nothing but a network":       {S{}, octavia.VIP{NetworkID: "n"}, octavia.VIP{NetworkID: "n"}},
		"subnet":                      {S{SubnetID: "s"}, there, octavia.VIP{SubnetID: "s"}},
		"subnet and network":          {S{SubnetID: "s", NetworkID: "n"}, there, octavia.VIP{SubnetID: "s", NetworkID: "n"}},
		"a port says all":             {S{PortID: "p", SubnetID: "s", NetworkID: "n"}, there, octavia.VIP{PortID: "p"}},
		"network, Octavia chooses":    {S{NetworkID: "n"}, octavia.VIP{NetworkID: "n"}, octavia.VIP{NetworkID: "n"}},
		"network, and a subnet in it": {S{NetworkID: "found network"}, there, found},
		// The subnet belongs to the network that was named before.
		"another network": {S{NetworkID: "n"}, there, octavia.VIP{NetworkID: "n"}},
	} {
		d, _ := build(t, func(in *Input) {
			in.Settings.PortID, in.Settings.SubnetID, in.Settings.NetworkID = test.asked.PortID,
				test.asked.SubnetID, test.asked.NetworkID
			in.Places.VIP = test.found
		})
		if d.LoadBalancer.VIP != test.want {
			t.Errorf("%s: %+v, want %+v", name, d.LoadBalancer.VIP, test.want)
		}
	}
}

func TestAddress_IsTheFloatingIPs_OrTheVIPs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind          func(*Input)
		address       string
		vip, floating string
	}{
		"external":       {func(*Input) {}, "192.0.2.9", "", "192.0.2.9"},
		"internal":       {internal, "10.0.0.9", "10.0.0.9", ""},
		"external, IPv6": {v6, "fd00::9", "fd00::9", ""},
		"internal, IPv6": {func(in *Input) { v6(in); internal(in) }, "fd00::9", "fd00::9", ""},
	} {
		d, _ := build(t, test.kind, func(in *Input) {
			in.Settings.Address = test.address
			in.Places.FloatingSubnetIDs = []string{"a", "b"}
		})
		if d.LoadBalancer.VIP.Address != test.vip {
			t.Errorf("%s: VIP %q, want %q", name, d.LoadBalancer.VIP.Address, test.vip)
		}
		switch {
		case (d.FloatingIP != nil) != (test.floating != ""):
			t.Errorf("%s: floating IP %+v", name, d.FloatingIP)
		case d.FloatingIP != nil &&
			(d.FloatingIP.Address != test.floating || d.FloatingIP.SubnetIDs != nil):
			t.Errorf("%s: floating IP %+v, want %s in whatever subnet", name, d.FloatingIP,
				test.floating)
		}
	}
	for name, wrong := range map[string]func(*Input){
		"IPv6 for IPv4":       func(in *Input) { in.Settings.Address = "fd00::9" },
		"IPv4 for IPv6":       func(in *Input) { v6(in); in.Settings.Address = "10.0.0.9" },
		"IPv6, internal IPv4": func(in *Input) { internal(in); in.Settings.Address = "fd00::9" },
		"no address":          func(in *Input) { in.Settings.Address = "x" },
	} {
		if err := refused(t, wrong); !strings.Contains(err.Error(), "loadBalancerIP") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddress_OfAnotherFamily_NamesTheAnnotation(t *testing.T) {
	t.Parallel()
	err := refused(t, func(in *Input) {
		in.Service.Annotations = map[string]string{settings.Prefix + "address": "fd00::9"}
		in.Settings.Address = "fd00::9"
	})
	if !strings.Contains(err.Error(), "annotation loadbalancer.openstack.org/address fd00::9 ") {
		t.Errorf("the refusal is %q", err)
	}
}

// A second address that cannot be had is reported, whatever the policy is.
func TestDualStack_AddressOfTheSecondFamily_IsThatOfTheSecondVIP(t *testing.T) {
	t.Parallel()
	asked := withSettings(func(s *settings.Settings) { s.AdditionalAddress = "fd00::9" })
	both := withFamilies(v1.IPv4Protocol, v1.IPv6Protocol)
	d, notices := build(t, both, asked, func(in *Input) {
		in.Places.AdditionalVIPs = []octavia.VIP{{SubnetID: "second"}}
	})
	wantTold(t, notices)
	want := []octavia.VIP{{SubnetID: "second", Address: "fd00::9"}}
	if !reflect.DeepEqual(d.LoadBalancer.AdditionalVIPs, want) {
		t.Errorf("the additional VIPs are %+v, want %+v", d.LoadBalancer.AdditionalVIPs, want)
	}
	d, notices = build(t, both, asked, existing, func(in *Input) {
		in.Places.AdditionalVIPs = []octavia.VIP{{SubnetID: "second", Address: "fd00::7"}}
		in.Places.KeepsAdditionalVIPs = true
	})
	wantTold(t, notices)
	want = []octavia.VIP{{SubnetID: "second"}}
	if !reflect.DeepEqual(d.LoadBalancer.AdditionalVIPs, want) {
		t.Errorf("the kept VIPs are %+v, want %+v", d.LoadBalancer.AdditionalVIPs, want)
	}
	for name, changes := range map[string][]func(*Input){
		"ovn":                   {both, asked, withFeatures(ovn())},
		"made with one address": {both, asked, existing},
	} {
		d, notices := build(t, changes...)
		if len(d.LoadBalancer.AdditionalVIPs) > 0 || len(notices) != 1 || !notices[0].Warning ||
			!strings.Contains(notices[0].Message, "fd00::9") {
			t.Errorf("%s: %+v, %+v", name, d.LoadBalancer.AdditionalVIPs, notices)
		}
	}
}

func TestFloatingIP_EachService_HasOneOrNone(t *testing.T) {
	t.Parallel()
	wanted := &neutron.WantedFloatingIP{
		NetworkID: "public", SubnetIDs: []string{"a", "b"},
		Description: "Floating IP for Kubernetes external service shop/web from cluster kubernetes",
		Tags:        []string{"fxccm-cluster=" + clusterUID, "fxccm-service=" + serviceUID},
	}
	place := func(in *Input) { in.Places.FloatingSubnetIDs = []string{"a", "b"} }
	d, notices := build(t, place)
	wantTold(t, notices)
	if !reflect.DeepEqual(d.FloatingIP, wanted) {
		t.Errorf("%+v, want %+v", d.FloatingIP, wanted)
	}
	d, notices = build(t, place, internal)
	wantTold(t, notices)
	if d.FloatingIP != nil {
		t.Errorf("internal: %+v", d.FloatingIP)
	}
	d, notices = build(t, place, v6)
	wantTold(t, notices, "LoadBalancerFloatingIPSkipped")
	if d.FloatingIP != nil {
		t.Errorf("IPv6: %+v", d.FloatingIP)
	}
}

func TestFloatingIP_NetworkUnknown_ExistingOneStays(t *testing.T) {
	t.Parallel()
	unknown := func(in *Input) { in.Places.FloatingNetworkID = "" }
	d, notices := build(t, unknown)
	wantTold(t, notices, "LoadBalancerForcedInternal!")
	if d.FloatingIP == nil || d.FloatingIP.NetworkID != "" {
		t.Errorf("%+v", d.FloatingIP)
	}
	d, notices = build(t, unknown, func(in *Input) { in.HasFloatingIP = true })
	wantTold(t, notices)
	if d.FloatingIP == nil {
		t.Errorf("%+v", d.FloatingIP)
	}
}

func TestFlavorAndZone_UnknownToTheCloud_AreLeftOut(t *testing.T) {
	t.Parallel()
	asked := withSettings(func(s *settings.Settings) {
		s.FlavorID, s.AvailabilityZone = "flavor", "zone"
	})
	const byOVN = " is ignored: the provider ovn does not support it; remove it, or set " +
		"lb-provider to another provider"
	for name, c := range map[string]struct {
		features         Features
		ofFlavor, ofZone string
	}{
		"ovn": {features: ovn(), ofFlavor: byOVN, ofZone: byOVN},
		"API 2.5": {
			features: FeaturesOf("amphora", 5, false),
			ofFlavor: " is ignored: it needs Octavia API 2.6, but the cloud has 2.5; remove it",
			ofZone:   " is ignored: it needs Octavia API 2.14, but the cloud has 2.5; remove it",
		},
	} {
		features := c.features
		d, notices := build(t, asked, withFeatures(features))
		wantTold(t, notices, "LoadBalancerFlavorIgnored!", "LoadBalancerAvailabilityZonesIgnored!")
		wantMessage(t, notices, "option flavor-id of cloud.conf flavor"+c.ofFlavor)
		wantMessage(t, notices, "option availability-zone of cloud.conf zone"+c.ofZone)
		for option, want := range map[string]string{
			"flavor-id": "flavor" + c.ofFlavor, "availability-zone": "zone" + c.ofZone,
		} {
			_, notices := build(t, asked, withFeatures(features), annotated(option, "x"))
			wantMessage(t, notices, "annotation "+settings.Prefix+option+" "+want)
		}
		if d.LoadBalancer.FlavorID != "" || d.LoadBalancer.AvailabilityZone != "" {
			t.Errorf("%s: %+v", name, d.LoadBalancer)
		}
		_, notices = build(t, withFeatures(features))
		wantTold(t, notices)
	}
}

func TestDualStack_Unsupported_MessageNamesProviderOrVersion(t *testing.T) {
	t.Parallel()
	for why, features := range map[string]Features{
		"dual stack with the provider ovn needs Octavia API 2.30, but the cloud has 2.27; " +
			"upgrade Octavia, or set lb-provider to another provider": ovn(),
		"dual stack needs Octavia API 2.26, but the cloud has 2.25; upgrade Octavia": FeaturesOf(
			"amphora", 25, false),
	} {
		_, notices := build(t, withFamilies(v1.IPv4Protocol, v1.IPv6Protocol),
			withFeatures(features))
		wantMessage(t, notices, "only IPv4 is served: "+why)
	}
}

func TestDualStack_EachPolicy_HasOneVIPOrTwo(t *testing.T) {
	t.Parallel()
	both := withFamilies(v1.IPv4Protocol, v1.IPv6Protocol)
	policy := func(p v1.IPFamilyPolicy) func(*Input) {
		return func(in *Input) { in.Service.Spec.IPFamilyPolicy = &p }
	}
	found := func(in *Input) {
		in.Places.AdditionalVIPs = []octavia.VIP{{
			Address: "fd00::9", PortID: "p",
			SubnetID: "second", NetworkID: "n",
		}}
	}
	none := func(*Input) {}
	for name, test := range map[string]struct {
		changes []func(*Input)
		want    []octavia.VIP
		told    []string
	}{
		"two addresses":         {[]func(*Input){both, found}, []octavia.VIP{{SubnetID: "second"}}, nil},
		"one family":            {[]func(*Input){none, found}, nil, nil},
		"nowhere found":         {[]func(*Input){both}, nil, nil},
		"made with one address": {[]func(*Input){both, existing}, nil, []string{"LoadBalancerSingleStack"}},
		"ovn":                   {[]func(*Input){both, found, withFeatures(ovn())}, nil, []string{"LoadBalancerSingleStack"}},
		"ovn, preferred": {[]func(*Input){
			both, withFeatures(ovn()),
			policy(v1.IPFamilyPolicyPreferDualStack),
		}, nil, []string{"LoadBalancerSingleStack"}},
		"ovn, required": {[]func(*Input){
			both, withFeatures(ovn()),
			policy(v1.IPFamilyPolicyRequireDualStack),
		}, nil, []string{"LoadBalancerSingleStack!"}},
		"made with one, required": {[]func(*Input){both, existing, policy(v1.IPFamilyPolicyRequireDualStack)}, nil, []string{"LoadBalancerSingleStack!"}},
		"one family, ovn":         {[]func(*Input){withFeatures(ovn())}, nil, nil},
	} {
		d, notices := build(t, test.changes...)
		wantTold(t, notices, test.told...)
		if !reflect.DeepEqual(d.LoadBalancer.AdditionalVIPs, test.want) {
			t.Errorf("%s: %+v, want %+v", name, d.LoadBalancer.AdditionalVIPs, test.want)
		}
	}
	d, _ := build(t, both, found, withNodes(node("n1", "10.0.0.1", "fd00::1")))
	if got := d.Ports[0].Pool.Members; len(got) != 1 || got[0].Address != "10.0.0.1" {
		t.Errorf("members are of the first family: %+v", got)
	}
}
