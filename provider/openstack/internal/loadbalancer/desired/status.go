package desired

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Status returns the published status: the hostname, or the addresses in their order. The address
// of the floating IP, or else of the VIP, comes first, then those of additional VIPs. Empty
// addresses are left out.
//
// With the PROXY protocol the mode is Proxy: kube-proxy then sends traffic from within the cluster
// through the load balancer, which adds the PROXY header. enable-ingress-hostname is the older way
// for the same purpose: a hostname that resolves to the address, IPv4 only.
func Status(service *v1.Service, s settings.Settings, addresses ...string) *v1.LoadBalancerStatus {
	if s.Hostname != "" {
		return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{Hostname: s.Hostname}}}
	}
	proxied := s.ProxyProtocol != "" &&
		slices.ContainsFunc(service.Spec.Ports,
			func(port v1.ServicePort) bool { return transport(port) == octavia.TCP })
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
