package desired

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// monitor returns nil for no monitor.
func (b *builder) monitor(port v1.ServicePort) *octavia.Monitor {
	s := b.Settings
	if !s.Monitor {
		return nil
	}
	m := &octavia.Monitor{
		Delay:          int(s.MonitorDelay / time.Second),
		Timeout:        int(s.MonitorTimeout / time.Second),
		MaxRetries:     s.MonitorMaxRetries,
		MaxRetriesDown: s.MonitorMaxRetriesDown,
	}
	switch carrier := transport(port); {
	case b.asksKubeProxy(port):
		// kube-proxy serves this path at the health check node port.
		m.Type, m.HTTPMethod, m.URLPath, m.ExpectedCodes = octavia.MonitorHTTP, "GET", "/healthz",
			"200"
	case carrier == octavia.UDP:
		m.Type = octavia.MonitorUDPConnect
	case carrier != octavia.SCTP:
		m.Type = octavia.MonitorTCP
	case b.Features.SCTPMonitors:
		m.Type = octavia.MonitorSCTP
	default:
		b.warn(events.MonitorIgnored,
			"the members of port "+portName(port)+
				" have no health monitor: the provider supports none for SCTP")
		return nil
	}
	return m
}

// asksKubeProxy reports whether the monitor of a port checks at the health check node port whether
// a member has endpoints of the Service.
func (b *builder) asksKubeProxy(port v1.ServicePort) bool {
	return b.Settings.Monitor && b.isLocal() && b.Features.HTTPMonitors &&
		(transport(port) != octavia.UDP || b.Features.UDPHTTPMonitors)
}

// isLocal reports whether nodes without endpoints of the Service drop its traffic.
func (b *builder) isLocal() bool {
	spec := b.Service.Spec
	return spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal &&
		spec.HealthCheckNodePort > 0
}

func (b *builder) warnUnmonitored() {
	if b.isLocal() && !b.Settings.Monitor {
		b.warn(events.LocalWithoutMonitor,
			"externalTrafficPolicy is Local, but the members have no health monitor: nodes without a local endpoint drop traffic; "+
				"annotate the Service with loadbalancer.openstack.org/enable-health-monitor: \"true\"")
	}
}
