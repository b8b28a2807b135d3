package desired

import (
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestFeatures_ComeWithVersionsOfTheAPI(t *testing.T) {
	t.Parallel()
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
		"persistence":           {0, func(f Features) bool { return f.Persistence }},
	}
	for name, feature := range has {
		for minor := range 31 {
			got := feature.of(FeaturesOf("amphora", minor, false))
			if got != (minor >= feature.since) {
				t.Errorf("amphora, API 2.%d: %s: %t", minor, name, got)
			}
			got = feature.of(FeaturesOf(octavia.ProviderOVN, minor, false))
			if got != (name == "tags" && minor >= 5 || name == "additional VIPs" && minor >= 30) {
				t.Errorf("ovn, API 2.%d: %s: %t", minor, name, got)
			}
		}
	}
	for _, provider := range []string{"", "amphora", "amphorav2", "f5", octavia.ProviderOVN} {
		f := FeaturesOf(provider, 27, true)
		if ovn := provider == octavia.ProviderOVN; f.KeepsClientAddress != ovn ||
			f.OnlySourceIPPort != ovn || f.NamesMemberSubnet != ovn ||
			f.MembersOfEachFamily != ovn || !f.Serial {
			t.Errorf("%q: %+v", provider, f)
		}
	}
	if FeaturesOf("amphora", 27, false).Serial {
		t.Error("the provider is serial without being configured so")
	}
}

func TestBuild_EachVersionOfTheAPI_HasNoNewerField(t *testing.T) {
	t.Parallel()
	changes := []func(*Input){dualStack, func(in *Input) {
		s := &in.Settings
		s.TLSContainer, s.TLSVersions, s.SourceRanges = certificate, []string{"TLSv1.3"},
			[]string{"10.0.0.0/8"}
		s.Monitor, s.FlavorID, s.AvailabilityZone = true, "flavor", "zone"
	}}
	refused := 0
	for minor := range 30 {
		d, _, err := Build(given(append(changes, withFeatures(FeaturesOf("amphora", minor,
			false)))...))
		if err != nil {
			refused++
			continue
		}
		newer := octavia.FieldsOf[octavia.LoadBalancer]().Newer(d.LoadBalancer, minor)
		for _, port := range d.Ports {
			newer = append(newer,
				octavia.FieldsOf[octavia.Listener]().Newer(port.Listener, minor)...)
			newer = append(newer, octavia.FieldsOf[octavia.Pool]().Newer(port.Pool, minor)...)
			newer = append(newer,
				octavia.FieldsOf[octavia.Monitor]().Newer(*port.Pool.Monitor, minor)...)
			for _, m := range port.Pool.Members {
				newer = append(newer, octavia.FieldsOf[octavia.Member]().Newer(m, minor)...)
			}
		}
		if len(newer) > 0 {
			t.Errorf("API 2.%d gets %q", minor, newer)
		}
	}
	if refused == 30 {
		t.Error("every version refuses the Service")
	}
}

func TestTLSVersions_WithoutTheAPIOrATLSListener_IsRefused(t *testing.T) {
	t.Parallel()
	const name = settings.Prefix + "tls-versions"
	versions := func(in *Input) {
		in.Settings.TLSVersions = []string{"TLSv1.2", "TLSv1.3"}
		in.Service.Annotations = map[string]string{name: "TLSv1.2,TLSv1.3"}
	}
	tls := func(in *Input) { in.Settings.TLSContainer = certificate }
	old := withFeatures(FeaturesOf("amphora", 16, false))
	for want, changes := range map[string][]func(*Input){
		" needs Octavia API 2.17, but the cloud has 2.16; remove it": {versions, tls, old},
		" needs a TERMINATED_HTTPS listener, but the Service has none; remove it, or set " +
			"default-tls-container-ref": {versions},
	} {
		if got := refused(t, changes...).Error(); got != "annotation "+name+want {
			t.Errorf("refused with %q, want annotation %s%s", got, name, want)
		}
	}
	d, _ := build(t, versions, tls, withFeatures(FeaturesOf("amphora", 17, false)))
	if got := d.Ports[0].Listener.TLSVersions; len(got) != 2 {
		t.Errorf("the versions are %q", got)
	}
}
