package desired

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestStatus_EachSetting_ShowsAddressOrHostname(t *testing.T) {
	t.Parallel()
	at := func(ip string, mode v1.LoadBalancerIPMode) v1.LoadBalancerIngress {
		return v1.LoadBalancerIngress{IP: ip, IPMode: &mode}
	}
	name := func(hostname string) v1.LoadBalancerIngress {
		return v1.LoadBalancerIngress{Hostname: hostname}
	}
	proxy := settings.Settings{ProxyProtocol: octavia.Proxy, IngressHostnameSuffix: "nip.io"}
	faked := proxy
	faked.EnableIngressHostname = true
	named := faked
	named.Hostname = "shop.example"
	unproxied := settings.Settings{EnableIngressHostname: true, IngressHostnameSuffix: "nip.io"}
	tcp, udp := []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP}, []v1.Protocol{v1.ProtocolUDP}
	for what, test := range map[string]struct {
		protocols []v1.Protocol
		settings  settings.Settings
		addresses []string
		want      []v1.LoadBalancerIngress
	}{
		"an address": {tcp, settings.Settings{}, []string{"192.0.2.1"}, []v1.LoadBalancerIngress{at("192.0.2.1", "VIP")}},
		"IPv6":       {tcp, settings.Settings{}, []string{"fd00::1"}, []v1.LoadBalancerIngress{at("fd00::1", "VIP")}},
		"dual stack": {
			tcp,
			settings.Settings{},
			[]string{"192.0.2.1", "fd00::1"},
			[]v1.LoadBalancerIngress{at("192.0.2.1", "VIP"), at("fd00::1", "VIP")},
		},
		"no address yet": {tcp, settings.Settings{}, []string{""}, nil},
		"PROXY": {
			tcp, proxy,
			[]string{"192.0.2.1", "fd00::1"},
			[]v1.LoadBalancerIngress{at("192.0.2.1", "Proxy"), at("fd00::1", "Proxy")},
		},
		"PROXY, but no TCP port":      {udp, proxy, []string{"192.0.2.1"}, []v1.LoadBalancerIngress{at("192.0.2.1", "VIP")}},
		"PROXY and a hostname for it": {tcp, faked, []string{"192.0.2.1"}, []v1.LoadBalancerIngress{name("192.0.2.1.nip.io")}},
		"PROXY and hostname, dual stack": {
			tcp, faked,
			[]string{"192.0.2.1", "fd00::1"},
			[]v1.LoadBalancerIngress{name("192.0.2.1.nip.io"), at("fd00::1", "Proxy")},
		},
		"hostname only for PROXY":         {tcp, unproxied, []string{"192.0.2.1"}, []v1.LoadBalancerIngress{at("192.0.2.1", "VIP")}},
		"the user's hostname":             {tcp, named, []string{"192.0.2.1"}, []v1.LoadBalancerIngress{name("shop.example")}},
		"the user's hostname, no address": {tcp, named, nil, []v1.LoadBalancerIngress{name("shop.example")}},
	} {
		in := given(withProtocols(test.protocols...))
		if got := Status(in.Service, test.settings,
			test.addresses...).Ingress; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", what, got, test.want)
		}
	}
}
