package desired

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Status is what the Service publishes: its hostname, or the addresses in their order. The first is
// the floating IP's or else the VIP's, the others are those of additional VIPs. Empty addresses are
// left out.
//
// With the PROXY protocol the mode is Proxy: kube-proxy then sends what comes from within the
// cluster through the load balancer, and not past it, where nobody would put the PROXY header in
// front. enable-ingress-hostname is the older way to the same end, a hostname that resolves to the
// address; it has none for IPv6.
func Status(service *v1.Service, s settings.Settings, addresses ...string) *v1.LoadBalancerStatus {
	if s.Hostname != "" {
		return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{Hostname: s.Hostname}}}
	}
	proxied := s.ProxyProtocol != "" &&
		slices.ContainsFunc(service.Spec.Ports,
			func(port v1.ServicePort) bool { return transport(port) == balancer.TCP })
	status := &v1.LoadBalancerStatus{}
	for _, address := range addresses {
		if address != "" {
			status.Ingress = append(status.Ingress, ingress(address, proxied, s))
		}
	}
	return status
}

func ingress(address string, proxied bool, s settings.Settings) v1.LoadBalancerIngress {
	mode := v1.LoadBalancerIPModeVIP
	if proxied {
		if s.EnableIngressHostname && isIPv4(address) {
			return v1.LoadBalancerIngress{Hostname: address + "." + s.IngressHostnameSuffix}
		}
		mode = v1.LoadBalancerIPModeProxy
	}
	return v1.LoadBalancerIngress{IP: address, IPMode: &mode}
}

func isIPv4(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Is4()
}
