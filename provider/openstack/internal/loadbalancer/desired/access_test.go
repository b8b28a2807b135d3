package desired

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

const left = "LoadBalancerSourceRangesLeftOut!"

func dualStack(in *Input) {
	in.Service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	in.Places.AdditionalVIPs = []octavia.VIP{{SubnetID: "second subnet"}}
}

func TestAccess_EachSourceRange_GivesTheAllowedCIDRs(t *testing.T) {
	t.Parallel()
	v6 := func(in *Input) {
		in.Service.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol}
		in.Settings.Internal = true
		withNodes(node("n1", "fd00::1"))(in)
	}
	v4 := func(*Input) {}
	unsaid := func(in *Input) { in.Service.Spec.IPFamilies = nil }
	for name, test := range map[string]struct {
		family func(*Input)
		ranges []string
		want   []string
		told   []string
	}{
		// OCCM also names all addresses explicitly.
		"all clients":               {v4, nil, []string{"0.0.0.0/0"}, nil},
		"all clients, no family":    {unsaid, nil, []string{"0.0.0.0/0"}, nil},
		"all clients, IPv6":         {v6, nil, []string{"::/0"}, nil},
		"all clients, both":         {dualStack, nil, []string{"0.0.0.0/0", "::/0"}, nil},
		"ranges":                    {v4, []string{"192.0.2.0/24", "10.0.0.0/8"}, []string{"10.0.0.0/8", "192.0.2.0/24"}, nil},
		"all clients, requested":    {v4, []string{"0.0.0.0/0"}, []string{"0.0.0.0/0"}, nil},
		"ranges of both":            {dualStack, []string{"10.0.0.0/8", "fd00::/8"}, []string{"10.0.0.0/8", "fd00::/8"}, nil},
		"of one family, for both":   {dualStack, []string{"10.0.0.0/8"}, []string{"10.0.0.0/8"}, nil},
		"IPv4 alone, for both":      {dualStack, []string{"0.0.0.0/0"}, []string{"0.0.0.0/0"}, nil},
		"another family left out":   {v4, []string{"10.0.0.0/8", "fd00::/8"}, []string{"10.0.0.0/8"}, []string{left}},
		"another family left out 6": {v6, []string{"10.0.0.0/8", "fd00::/8"}, []string{"fd00::/8"}, []string{left}},
		"doubles":                   {v4, []string{"10.0.0.0/8", "10.0.0.0/8"}, []string{"10.0.0.0/8"}, nil},
	} {
		d, notices := build(t, test.family, withProtocols(v1.ProtocolTCP, v1.ProtocolUDP),
			func(in *Input) { in.Settings.SourceRanges = test.ranges })
		wantTold(t, notices, test.told...)
		for _, port := range d.Ports {
			if got := port.Listener.AllowedCIDRs; !slices.Equal(got, test.want) {
				t.Errorf("%s: %s: %q, want %q", name, port.Name, got, test.want)
			}
		}
	}
}

func TestAccess_SettingsAreNotChanged(t *testing.T) {
	t.Parallel()
	in := given()
	in.Settings.SourceRanges = []string{"192.0.2.0/24", "10.0.0.0/8"}
	if _, _, err := Build(in); err != nil || in.Settings.SourceRanges[0] != "192.0.2.0/24" {
		t.Errorf("error %v, ranges %q", err, in.Settings.SourceRanges)
	}
}

func TestAccess_NoRangeLeft_IsRefused(t *testing.T) {
	t.Parallel()
	for name, ranges := range map[string][]string{
		"another family": {"fd00::/8"}, "not one": {"10.0.0.0"}, "not one of two": {"10.0.0.0/8", "x"}, "an empty list": {},
	} {
		err := refused(t, func(in *Input) { in.Settings.SourceRanges = ranges })
		if !strings.Contains(err.Error(), "source range") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAccess_NoSourceRanges_NothingIsIgnored(t *testing.T) {
	t.Parallel()
	for name, features := range map[string]Features{
		"ovn":      ovn(),
		"API 2.11": FeaturesOf("amphora", 11, false),
	} {
		d, notices := build(t, withFeatures(features))
		wantTold(t, notices)
		if got := d.Ports[0].Listener.AllowedCIDRs; got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAccess_ProviderCannotRestrict_Warns(t *testing.T) {
	t.Parallel()
	ranges := func(in *Input) { in.Settings.SourceRanges = []string{"10.0.0.0/8"} }
	ofSpec := func(in *Input) {
		ranges(in)
		in.Service.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
	}
	manage := func(in *Input) { in.Settings.ManageSecurityGroups = true }
	ignored := "LoadBalancerSourceRangesIgnored!"
	_, notices := build(t, withFeatures(ovn()), ranges)
	wantTold(t, notices, ignored)
	wantMessage(t, notices, "annotation service.beta.kubernetes.io/load-balancer-source-ranges is "+
		"ignored, and every client may connect: the provider ovn cannot restrict clients; set "+
		"manage-security-groups in cloud.conf, or lb-provider to another provider")
	_, notices = build(t, withFeatures(FeaturesOf("amphora", 11, false)), ofSpec, manage)
	wantTold(t, notices, ignored)
	wantMessage(t, notices, "spec.loadBalancerSourceRanges is ignored, and every client may "+
		"connect: it needs Octavia API 2.12, but the cloud has 2.11; upgrade Octavia, or restrict "+
		"clients by other means")
	d, notices := build(t, withFeatures(ovn()), ranges, manage)
	wantTold(t, notices)
	if d.Ports[0].Listener.AllowedCIDRs != nil {
		t.Error("ovn gets allowed_cidrs")
	}
}

// Zed supports additional VIPs, but cannot create a load balancer with both an additional VIP and
// CIDRs.
func TestAccess_DualStackBeforeAPI227_IsOpen(t *testing.T) {
	t.Parallel()
	zed := withFeatures(FeaturesOf("amphora", 26, false))
	d, notices := build(t, zed, dualStack)
	wantTold(t, notices)
	if got := d.Ports[0].Listener.AllowedCIDRs; got != nil ||
		len(d.LoadBalancer.AdditionalVIPs) != 1 {
		t.Errorf("the CIDRs are %q, the additional VIPs %v", got, d.LoadBalancer.AdditionalVIPs)
	}
	err := refused(t, zed, dualStack,
		func(in *Input) { in.Settings.SourceRanges = []string{"10.0.0.0/8"} })
	if !strings.Contains(err.Error(), "2.27") {
		t.Error(err)
	}
	d, _ = build(t, zed, func(in *Input) { in.Settings.SourceRanges = []string{"10.0.0.0/8"} })
	if got := d.Ports[0].Listener.AllowedCIDRs; !slices.Equal(got, []string{"10.0.0.0/8"}) {
		t.Errorf("of one family: the CIDRs are %q", got)
	}
}
