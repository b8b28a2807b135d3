package desired

import (
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

func TestFeatures_ComeWithVersionsOfTheAPI(t *testing.T) {
	has := map[string]struct {
		since int
		of    func(Features) bool
	}{
		"timeouts":              {1, func(f Features) bool { return f.Timeouts }},
		"tags":                  {5, func(f Features) bool { return f.Tags }},
		"flavors":               {6, func(f Features) bool { return f.Flavors }},
		"allowed_cidrs":         {12, func(f Features) bool { return f.AllowedCIDRs }},
		"availability zones":    {14, func(f Features) bool { return f.AvailabilityZones }},
		"HTTP monitors for UDP": {16, func(f Features) bool { return f.UDPHTTPMonitors }},
		"additional VIPs":       {26, func(f Features) bool { return f.AdditionalVIPs }},
		"CIDRs for all VIPs":    {27, func(f Features) bool { return f.AllVIPsCIDRs }},
		"HTTP monitors":         {0, func(f Features) bool { return f.HTTPMonitors }},
		"monitors for SCTP":     {0, func(f Features) bool { return f.SCTPMonitors }},
		"HTTP, TLS and PROXY":   {0, func(f Features) bool { return f.HTTP }},
		"weights":               {0, func(f Features) bool { return f.Weights }},
	}
	for name, feature := range has {
		for minor := range 30 {
			got := feature.of(FeaturesOf("amphora", minor, false))
			if got != (minor >= feature.since) {
				t.Errorf("amphora, API 2.%d: %s: %t", minor, name, got)
			}
			got = feature.of(FeaturesOf(octavia.ProviderOVN, minor, false))
			if got != (name == "tags" && minor >= 5) {
				t.Errorf("ovn, API 2.%d: %s: %t", minor, name, got)
			}
		}
	}
	for _, provider := range []string{"", "amphora", "amphorav2", "f5", octavia.ProviderOVN} {
		f := FeaturesOf(provider, 27, true)
		if ovn := provider == octavia.ProviderOVN; f.KeepsClientAddress != ovn ||
			f.OnlySourceIPPort != ovn || !f.Serial {
			t.Errorf("%q: %+v", provider, f)
		}
	}
	if FeaturesOf("amphora", 27, false).Serial {
		t.Error("the provider is serial without being configured so")
	}
}
