package desired

import (
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// The rows come from OCCM's tests of listeners and pools, except UDP and SCTP ports and the
// features that OCCM lacks.
func TestPort_Protocols(t *testing.T) {
	t.Parallel()
	type asked = func(*settings.Settings)
	tls := func(s *settings.Settings) { s.TLSContainer = certificate }
	forwarded := func(s *settings.Settings) { s.XForwardedFor = true }
	proxy := func(s *settings.Settings) { s.ProxyProtocol = octavia.Proxy }
	proxyV2 := func(s *settings.Settings) { s.ProxyProtocol = octavia.ProxyV2 }
	port := func(protocol string) asked {
		return func(s *settings.Settings) {
			s.ListenerProtocols = settings.ListenerProtocols{"p0": protocol}
		}
	}
	for name, test := range map[string]struct {
		protocol       v1.Protocol
		asked          []asked
		listener, pool string
	}{
		"TCP":                               {v1.ProtocolTCP, nil, "TCP", "TCP"},
		"nothing said is TCP":               {"", nil, "TCP", "TCP"},
		"UDP":                               {v1.ProtocolUDP, nil, "UDP", "UDP"},
		"SCTP":                              {v1.ProtocolSCTP, nil, "SCTP", "SCTP"},
		"certificate":                       {v1.ProtocolTCP, []asked{tls}, "TERMINATED_HTTPS", "HTTP"},
		"X-Forwarded-For":                   {v1.ProtocolTCP, []asked{forwarded}, "HTTP", "HTTP"},
		"X-Forwarded-Port":                  {v1.ProtocolTCP, []asked{func(s *settings.Settings) { s.XForwardedPort = true }}, "HTTP", "HTTP"},
		"X-Forwarded-Proto":                 {v1.ProtocolTCP, []asked{func(s *settings.Settings) { s.XForwardedProto = true }}, "HTTP", "HTTP"},
		"certificate and X-Forwarded-For":   {v1.ProtocolTCP, []asked{tls, forwarded}, "TERMINATED_HTTPS", "HTTP"},
		"PROXY":                             {v1.ProtocolTCP, []asked{proxy}, "TCP", "PROXY"},
		"PROXYV2":                           {v1.ProtocolTCP, []asked{proxyV2}, "TCP", "PROXYV2"},
		"PROXY and X-Forwarded-For":         {v1.ProtocolTCP, []asked{proxy, forwarded}, "HTTP", "PROXY"},
		"PROXY, certificate and header":     {v1.ProtocolTCP, []asked{proxy, tls, forwarded}, "TERMINATED_HTTPS", "PROXY"},
		"the port asks for TCP":             {v1.ProtocolTCP, []asked{tls, forwarded, port("TCP")}, "TCP", "TCP"},
		"the port asks for HTTP":            {v1.ProtocolTCP, []asked{tls, port("HTTP")}, "HTTP", "HTTP"},
		"the port asks for HTTPS":           {v1.ProtocolTCP, []asked{port("HTTPS")}, "HTTPS", "HTTPS"},
		"the port asks for HTTPS and PROXY": {v1.ProtocolTCP, []asked{port("HTTPS"), proxy}, "HTTPS", "PROXY"},
		"the port asks for the certificate": {v1.ProtocolTCP, []asked{tls, port("TERMINATED_HTTPS")}, "TERMINATED_HTTPS", "HTTP"},
		"the UDP port asks for UDP":         {v1.ProtocolUDP, []asked{port("UDP")}, "UDP", "UDP"},
		"another port asks": {v1.ProtocolTCP, []asked{func(s *settings.Settings) {
			s.ListenerProtocols = settings.ListenerProtocols{"p1": "HTTP"}
		}}, "TCP", "TCP"},
	} {
		d, notices := build(t, withProtocols(test.protocol), func(in *Input) {
			for _, ask := range test.asked {
				ask(&in.Settings)
			}
		})
		wantTold(t, notices)
		if l, p := d.Ports[0].Listener.Protocol,
			d.Ports[0].Pool.Protocol; l != test.listener || p != test.pool {
			t.Errorf("%s: listener %s, pool %s, want %s and %s", name, l, p, test.listener,
				test.pool)
		}
	}
}

func TestPorts_OfUDPAndSCTP_AreNeverForcedIntoHTTPOrPROXY(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withProtocols(v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP),
		withSettings(func(s *settings.Settings) {
			s.TLSContainer, s.XForwardedFor, s.ProxyProtocol = certificate, true, octavia.ProxyV2
		}))
	for i, want := range [][2]string{
		{"TERMINATED_HTTPS", "PROXYV2"},
		{"UDP", "UDP"},
		{"SCTP", "SCTP"},
	} {
		port := d.Ports[i]
		if got := [2]string{port.Listener.Protocol, port.Pool.Protocol}; got != want {
			t.Errorf("%s: %v, want %v", port.Name, got, want)
		}
		if hasHTTP := port.Listener.TLSContainer != "" ||
			port.Listener.InsertHeaders != nil; hasHTTP != (i == 0) {
			t.Errorf("%s: certificate %q, headers %v", port.Name, port.Listener.TLSContainer,
				port.Listener.InsertHeaders)
		}
	}
}

func TestPort_HeadersAndCertificate_AreWhereTheyAreUnderstood(t *testing.T) {
	t.Parallel()
	all := withSettings(func(s *settings.Settings) {
		s.TLSContainer, s.XForwardedFor, s.XForwardedPort, s.XForwardedProto = certificate, true,
			true, true
		s.ListenerProtocols = settings.ListenerProtocols{"p1": "HTTP", "p2": "TCP", "p3": "HTTPS"}
	})
	d, _ := build(t, withProtocols(v1.ProtocolTCP, v1.ProtocolTCP, v1.ProtocolTCP, v1.ProtocolTCP),
		all)
	headers := map[string]string{
		"X-Forwarded-For": "true", "X-Forwarded-Port": "true",
		"X-Forwarded-Proto": "true",
	}
	for i, want := range []struct {
		protocol, certificate string
		headers               map[string]string
	}{
		{"TERMINATED_HTTPS", certificate, headers},
		{"HTTP", "", headers},
		{"TCP", "", nil},
		{"HTTPS", "", nil},
	} {
		l := d.Ports[i].Listener
		if l.Protocol != want.protocol || l.TLSContainer != want.certificate ||
			!maps.Equal(l.InsertHeaders, want.headers) {
			t.Errorf("%s: %+v, want %+v", d.Ports[i].Name, l, want)
		}
	}
	d, _ = build(t, withSettings(func(s *settings.Settings) { s.XForwardedPort = true }))
	if got := d.Ports[0].Listener.InsertHeaders; !maps.Equal(got,
		map[string]string{"X-Forwarded-Port": "true"}) {
		t.Errorf("headers %v", got)
	}
}

func TestPort_LimitsOfTheListener(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withSettings(func(s *settings.Settings) {
		s.ConnectionLimit = 10
		s.TimeoutClientData = 1
		s.TimeoutMemberConnect = 2
		s.TimeoutMemberData = 3
		s.TimeoutTCPInspect = 4
	}))
	if l := d.Ports[0].Listener; l.ConnectionLimit != 10 ||
		*l.Timeouts != (octavia.Timeouts{
			ClientData: 1, MemberConnect: 2, MemberData: 3, TCPInspect: 4,
		}) {
		t.Errorf("%+v, timeouts %+v", l, l.Timeouts)
	}
}

func TestPort_UnsupportedProtocol_IsRefused(t *testing.T) {
	t.Parallel()
	type asked = func(*settings.Settings)
	port := func(protocol string) asked {
		return func(s *settings.Settings) {
			s.ListenerProtocols = settings.ListenerProtocols{"p0": protocol}
		}
	}
	for name, test := range map[string]struct {
		protocol v1.Protocol
		features Features
		asked    asked
		says     string
	}{
		"ovn, certificate":     {v1.ProtocolTCP, ovn(), func(s *settings.Settings) { s.TLSContainer = certificate }, "TERMINATED_HTTPS"},
		"ovn, X-Forwarded-For": {v1.ProtocolTCP, ovn(), func(s *settings.Settings) { s.XForwardedFor = true }, "HTTP"},
		"ovn, PROXY":           {v1.ProtocolTCP, ovn(), func(s *settings.Settings) { s.ProxyProtocol = octavia.Proxy }, "PROXY"},
		"ovn, HTTP":            {v1.ProtocolTCP, ovn(), port("HTTP"), "HTTP"},
		"ovn, HTTPS":           {v1.ProtocolTCP, ovn(), port("HTTPS"), "HTTPS"},
		"no certificate":       {v1.ProtocolTCP, latest(), port("TERMINATED_HTTPS"), "certificate"},
		"UDP by HTTP":          {v1.ProtocolUDP, latest(), port("HTTP"), "HTTP"},
		"TCP by UDP":           {v1.ProtocolTCP, latest(), port("UDP"), "UDP"},
		"SCTP by UDP":          {v1.ProtocolSCTP, latest(), port("UDP"), "UDP"},
		"unknown listener":     {v1.ProtocolTCP, latest(), port("PROMETHEUS"), "PROMETHEUS"},
		"unknown protocol":     {"ICMP", latest(), func(*settings.Settings) {}, "ICMP"},
	} {
		err := refused(t, withProtocols(test.protocol), withFeatures(test.features),
			withSettings(test.asked))
		if !strings.Contains(err.Error(), test.says) ||
			!strings.HasPrefix(err.Error(), "port 80/"+string(test.protocol)) {
			t.Errorf("%s: %q does not name the port and %s", name, err, test.says)
		}
		if strings.HasPrefix(name, "ovn, ") && (!strings.Contains(err.Error(),
			": the provider ovn does not support ") || !strings.HasSuffix(err.Error(),
			" of cloud.conf); remove it, or set lb-provider to another provider")) {
			t.Errorf("%s: %q does not name the provider, the setting and what to do", name, err)
		}
	}
	// A certificate for all Services does not affect one without TCP ports.
	_, notices := build(t, withProtocols(v1.ProtocolUDP), withFeatures(ovn()),
		withSettings(func(s *settings.Settings) {
			s.TLSContainer, s.ProxyProtocol = certificate, octavia.Proxy
		}))
	wantTold(t, notices)
}

func TestPort_UnsupportedListener_RefusalNamesTheSetting(t *testing.T) {
	t.Parallel()
	const setting = "annotation " + settings.Prefix + "listener-protocols"
	for protocol, want := range map[string]string{
		"PROMETHEUS": "there are no PROMETHEUS listeners (" + setting + "); correct it",
		"UDP":        "a UDP listener cannot serve TCP (" + setting + "); correct it",
		"TERMINATED_HTTPS": "a TERMINATED_HTTPS listener (" + setting + ") needs a certificate; " +
			"set default-tls-container-ref",
	} {
		err := refused(t, annotated("listener-protocols", "http="+protocol),
			withSettings(func(s *settings.Settings) {
				s.ListenerProtocols = settings.ListenerProtocols{"http": protocol}
			}))
		if err.Error() != "port 80/TCP: "+want {
			t.Errorf("%s is refused with %q, want %q", protocol, err, want)
		}
	}
}

func TestPort_Algorithm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		features    Features
		asked, want string
		told        []string
	}{
		"default":                    {latest(), "", "ROUND_ROBIN", nil},
		"asked":                      {latest(), "LEAST_CONNECTIONS", "LEAST_CONNECTIONS", nil},
		"ovn, default":               {ovn(), "", "SOURCE_IP_PORT", nil},
		"ovn, asked for its own":     {ovn(), "SOURCE_IP_PORT", "SOURCE_IP_PORT", nil},
		"ovn, asked for what is not": {ovn(), "LEAST_CONNECTIONS", "SOURCE_IP_PORT", []string{"LoadBalancerAlgorithmIgnored!"}},
	} {
		d, notices := build(t, withProtocols(v1.ProtocolTCP, v1.ProtocolUDP),
			withFeatures(test.features), withSettings(func(s *settings.Settings) {
				s.Algorithm = test.asked
			}))
		wantTold(t, notices, test.told...)
		for _, port := range d.Ports {
			if port.Pool.Algorithm != test.want {
				t.Errorf("%s: %s, want %s", name, port.Pool.Algorithm, test.want)
			}
		}
	}
}

func TestSessionAffinity_IsDesired(t *testing.T) {
	t.Parallel()
	for affinity, want := range map[v1.ServiceAffinity]struct {
		is   octavia.Persistence
		told []string // with ovn
	}{
		v1.ServiceAffinityClientIP: {"SOURCE_IP", []string{"LoadBalancerAffinityIgnored!"}},
		v1.ServiceAffinityNone:     {},
		"":                         {},
	} {
		asked := func(in *Input) { in.Service.Spec.SessionAffinity = affinity }
		d, notices := build(t, asked)
		wantTold(t, notices)
		if got := d.Ports[0].Pool.Persistence; got != want.is {
			t.Errorf("%q: persistence %q, want %q", affinity, got, want.is)
		}
		_, notices = build(t, asked, withFeatures(ovn()))
		wantTold(t, notices, want.told...)
	}
}
