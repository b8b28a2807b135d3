package desired

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// The default algorithms.
const (
	roundRobin   = "ROUND_ROBIN"
	sourceIPPort = "SOURCE_IP_PORT"
)

// sourceIP is the persistence that keeps each client at one member.
const sourceIP = "SOURCE_IP"

func (b *builder) ports(backends []backend, clients []string) ([]octavia.Port, error) {
	name := b.LoadBalancerName
	if name == "" || b.Guest {
		name = b.Identity.LoadBalancerName()
	}
	algorithm := b.algorithm()
	ports := make([]octavia.Port, 0, len(b.Service.Spec.Ports))
	for i, of := range b.Service.Spec.Ports {
		port := octavia.Port{Name: portName(of)}
		listens, err := b.listenerProtocol(of)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", port.Name, err)
		}
		speaks, err := b.poolProtocol(listens)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", port.Name, err)
		}
		port.Listener = b.listener(of, listens, clients)
		port.Listener.Name = ListenerName(i, name)
		port.Pool = octavia.Pool{
			Name:        PoolName(i, name),
			Protocol:    speaks,
			Algorithm:   algorithm,
			Persistence: b.persistence(),
			Monitor:     b.monitor(of),
			Members:     b.members(of, backends),
		}
		if port.Pool.Monitor != nil {
			port.Pool.Monitor.Name = MonitorName(i, name)
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func portName(port v1.ServicePort) string {
	return strconv.Itoa(int(port.Port)) + "/" + transport(port)
}

// transport is TCP, UDP or SCTP; TCP is what the API server fills in.
func transport(port v1.ServicePort) string {
	if port.Protocol == "" {
		return octavia.TCP
	}
	return string(port.Protocol)
}

// listenerProtocol returns the protocol of a port. An annotation for all ports applies to TCP
// ports; one for a single port overrides it.
func (b *builder) listenerProtocol(port v1.ServicePort) (string, error) {
	carrier := transport(port)
	if !slices.Contains([]string{octavia.TCP, octavia.UDP, octavia.SCTP}, carrier) {
		return "", fmt.Errorf("protocol %q is not supported", carrier)
	}
	protocol := b.Settings.ListenerProtocols.Of(port)
	switch {
	case protocol != "":
	case carrier != octavia.TCP:
		protocol = carrier
	case b.Settings.TLSContainer != "":
		protocol = octavia.TerminatedHTTPS
	case len(b.headers()) > 0:
		protocol = octavia.HTTP
	default:
		protocol = octavia.TCP
	}
	return protocol, b.admitProtocol(protocol, carrier)
}

func (b *builder) admitProtocol(protocol, carrier string) error {
	known := []string{
		octavia.TCP, octavia.HTTP, octavia.HTTPS, octavia.TerminatedHTTPS,
		octavia.UDP, octavia.SCTP,
	}
	switch {
	case !slices.Contains(known, protocol):
		return fmt.Errorf("there are no %s listeners", protocol)
	case octavia.Transport(protocol) != carrier:
		return fmt.Errorf("a %s listener cannot serve it", protocol)
	case protocol == octavia.TerminatedHTTPS && b.Settings.TLSContainer == "":
		return fmt.Errorf("a %s listener needs a certificate, but no TLS container is configured",
			protocol)
	case protocol != carrier && !b.Features.HTTP:
		return fmt.Errorf("the provider forwards packets unchanged and does not support %s",
			protocol)
	}
	return nil
}

// headers returns the headers to insert into HTTP requests. Only a proxy needs to insert them.
func (b *builder) headers() map[string]string {
	headers := map[string]string{}
	for name, wanted := range map[string]bool{
		"X-Forwarded-For":   b.Settings.XForwardedFor,
		"X-Forwarded-Port":  b.Settings.XForwardedPort,
		"X-Forwarded-Proto": b.Settings.XForwardedProto,
	} {
		if wanted {
			headers[name] = "true"
		}
	}
	return headers
}

// listener sets timeouts, CIDRs and tags only if the cloud supports them. Headers and certificates
// are set only for protocols for which Octavia accepts them.
func (b *builder) listener(
	port v1.ServicePort, protocol string, clients []string,
) octavia.Listener {
	s := b.Settings
	l := octavia.Listener{
		Tags:            b.tags(),
		Protocol:        protocol,
		Port:            int(port.Port),
		ConnectionLimit: s.ConnectionLimit,
	}
	if b.Features.Timeouts {
		l.Timeouts = &octavia.Timeouts{
			ClientData:    s.TimeoutClientData,
			MemberConnect: s.TimeoutMemberConnect,
			MemberData:    s.TimeoutMemberData,
			TCPInspect:    s.TimeoutTCPInspect,
		}
	}
	if b.Features.AllowedCIDRs {
		l.AllowedCIDRs = slices.Clone(clients)
	}
	if headers := b.headers(); isHTTP(protocol) && len(headers) > 0 {
		l.InsertHeaders = headers
	}
	if protocol == octavia.TerminatedHTTPS {
		l.TLSContainer = s.TLSContainer
	}
	return l
}

func isHTTP(protocol string) bool {
	return protocol == octavia.HTTP || protocol == octavia.TerminatedHTTPS
}

// poolProtocol returns the protocol between load balancer and members. The PROXY protocol, which
// needs TCP, has priority.
func (b *builder) poolProtocol(listener string) (string, error) {
	proxy := b.Settings.ProxyProtocol
	switch {
	case proxy != "" && octavia.Transport(listener) == octavia.TCP:
		if !b.Features.HTTP {
			return "",
				fmt.Errorf(
					"the provider forwards packets unchanged and does not support the %s protocol",
					proxy)
		}
		return proxy, nil
	case isHTTP(listener):
		return octavia.HTTP, nil
	}
	return listener, nil
}

// algorithm ignores another algorithm with ovn, which supports only one: cloud.conf may have been
// written for other providers.
func (b *builder) algorithm() string {
	asked := b.Settings.Algorithm
	switch {
	case b.Features.OnlySourceIPPort:
		if asked != "" && asked != sourceIPPort {
			b.warn(events.AlgorithmIgnored,
				"lb-method "+asked+" is ignored: the provider supports only "+sourceIPPort)
		}
		return sourceIPPort
	case asked == "":
		return roundRobin
	}
	return asked
}

func (b *builder) persistence() octavia.Persistence {
	if b.Service.Spec.SessionAffinity == v1.ServiceAffinityClientIP {
		return sourceIP
	}
	return ""
}

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
