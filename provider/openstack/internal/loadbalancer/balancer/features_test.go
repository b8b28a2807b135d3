package balancer

import "testing"

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
			if got := feature.of(FeaturesOf(ProviderOVN, minor, false)); got != (name == "tags" &&
				minor >= 5) {
				t.Errorf("ovn, API 2.%d: %s: %t", minor, name, got)
			}
		}
	}
	for _, provider := range []string{"", "amphora", "octavia", "amphorav2", "f5", ProviderOVN} {
		f := FeaturesOf(provider, 27, true)
		if ovn := provider == ProviderOVN; f.KeepsClientAddress != ovn ||
			f.OnlySourceIPPort != ovn || !f.Serial {
			t.Errorf("%q: %+v", provider, f)
		}
	}
	if FeaturesOf("amphora", 27, false).Serial {
		t.Error("the provider is serial without being configured so")
	}
}

func TestListenerKey_TellsPortsOfOneTransportApart(t *testing.T) {
	for protocol, want := range map[string]string{
		TCP: TCP, HTTP: TCP, HTTPS: TCP, TerminatedHTTPS: TCP, Prometheus: TCP, UDP: UDP,
		SCTP: SCTP,
	} {
		l := Listener{Protocol: protocol, Port: 443}
		if got := l.Key(); got != (ListenerKey{want, 443}) {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

func TestStatus(t *testing.T) {
	for status, want := range map[Status][2]bool{
		Active: {false, false}, Error: {false, false}, Deleted: {false, true},
		PendingCreate: {true, false}, PendingUpdate: {true, false}, PendingDelete: {true, true},
	} {
		if got := [2]bool{status.Pending(), status.Gone()}; got != want {
			t.Errorf("%s: pending, gone = %v, want %v", status, got, want)
		}
	}
}

func TestRulesAreTheSame_WhateverTheirIDs(t *testing.T) {
	a := Rule{
		ID: "a", Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: 1,
		PortMax: 1, RemotePrefix: "10.0.0.0/8",
	}
	b := a
	b.ID = ""
	if !a.Same(b) {
		t.Error("the id makes a difference")
	}
	b.PortMax = 2
	if a.Same(b) {
		t.Error("the port makes no difference")
	}
}
