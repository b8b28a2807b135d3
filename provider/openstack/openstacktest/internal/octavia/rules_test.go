package octavia

import (
	"strings"
	"testing"
)

func TestProtocols_OfListenerAndPool(t *testing.T) {
	// The API reference's table of valid protocol combinations.
	fits := map[string]string{
		"TCP":              "TCP HTTPS HTTP PROXY PROXYV2",
		"HTTP":             "HTTP PROXY PROXYV2",
		"HTTPS":            "TCP HTTPS PROXY PROXYV2",
		"TERMINATED_HTTPS": "HTTP PROXY PROXYV2",
		"UDP":              "UDP",
		"SCTP":             "SCTP",
		"PROMETHEUS":       "",
	}
	for _, listener := range strings.Fields("TCP HTTPS HTTP TERMINATED_HTTPS UDP SCTP PROMETHEUS") {
		for _, pool := range strings.Fields("TCP HTTPS HTTP PROXY PROXYV2 UDP SCTP") {
			want := strings.Contains(" "+fits[listener]+" ", " "+pool+" ")
			if got := admitProtocols(listener, pool) == nil; got != want {
				t.Errorf("a listener of %s with a pool of %s is allowed: %v, want %v", listener,
					pool, got, want)
			}
		}
	}
}

func TestPorts_OfTwoListeners(t *testing.T) {
	for _, c := range []struct {
		one, other string
		conflict   bool
	}{
		{"TCP", "TCP", true},
		{"TCP", "HTTP", true},
		{"HTTP", "TERMINATED_HTTPS", true},
		{"HTTPS", "PROMETHEUS", true},
		{"TCP", "UDP", false},
		{"UDP", "UDP", true},
		{"UDP", "SCTP", false},
		{"TCP", "SCTP", false},
	} {
		others := []Listener{{Protocol: c.other, ProtocolPort: 53}}
		if got := admitPort(&Listener{Protocol: c.one, ProtocolPort: 53},
			others) != nil; got != c.conflict {
			t.Errorf("%s and %s on one port: conflict %v, want %v", c.one, c.other, got, c.conflict)
		}
		if admitPort(&Listener{Protocol: c.one, ProtocolPort: 54}, others) != nil {
			t.Errorf("%s and %s on two ports are a conflict", c.one, c.other)
		}
	}
}

func TestMonitors_OfPools(t *testing.T) {
	for _, protocol := range strings.Fields("TCP HTTPS HTTP PROXY PROXYV2 UDP SCTP") {
		for _, kind := range strings.Fields("HTTP HTTPS PING TCP TLS-HELLO UDP-CONNECT SCTP") {
			datagram := protocol == "UDP" || protocol == "SCTP"
			want := kind != "UDP-CONNECT" && kind != "SCTP"
			if datagram {
				want = kind == "UDP-CONNECT" || kind == "SCTP" || kind == "TCP" || kind == "HTTP"
			}
			err := admitMonitor(&HealthMonitor{Type: kind, Delay: 5, Timeout: 5, MaxRetries: 1},
				protocol)
			if got := err == nil; got != want {
				t.Errorf("a %s monitor of a %s pool: %v, want allowed %v", kind, protocol, err,
					want)
			}
		}
	}
}
