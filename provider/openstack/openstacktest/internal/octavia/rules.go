package octavia

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// fitsListener is VALID_LISTENER_POOL_PROTOCOL_MAP of octavia/common/constants.py.
func fitsListener(listener, pool string) bool {
	switch listener {
	case protocolTCP:
		return slices.Contains([]string{
			protocolHTTP, protocolHTTPS, protocolProxy, protocolProxyV2,
			protocolTCP,
		}, pool)
	case protocolHTTP, protocolTerminated:
		return slices.Contains([]string{protocolHTTP, protocolProxy, protocolProxyV2}, pool)
	case protocolHTTPS:
		return slices.Contains([]string{protocolHTTPS, protocolProxy, protocolProxyV2, protocolTCP},
			pool)
	case protocolUDP, protocolSCTP:
		return listener == pool
	}
	return false
}

// transport is the transport protocol of a protocol (L4_PROTOCOL_MAP).
func transport(protocol string) string {
	if isDatagram(protocol) {
		return protocol
	}
	return protocolTCP
}

func isDatagram(protocol string) bool { return protocol == protocolUDP || protocol == protocolSCTP }

func admitProtocols(listener, pool string) error {
	if listener == protocolPrometheus {
		return api.Refuse(http.StatusBadRequest, "Protocol %s listeners cannot have child objects.",
			listener)
	}
	if !fitsListener(listener, pool) {
		return invalid(
			"The pool protocol '%s' is invalid while the listener protocol is '%s'.", pool,
			listener)
	}
	return nil
}

// admitListener has the checks of a single listener (ListenersController._validate_create_listener
// and _validate_listener_PUT). datagram is the text for UDP and SCTP with TLS or headers.
func admitListener(l *Listener, datagram string) error {
	certified := l.DefaultTLSContainerRef != "" || len(l.SNIContainerRefs) > 0
	terminates := l.Protocol == protocolTerminated || l.Protocol == protocolPrometheus && certified
	switch {
	case isDatagram(l.Protocol) && (certified || len(l.InsertHeaders) > 0):
		return invalid(datagram, l.Protocol)
	case !terminates && certified:
		return invalid(
			"Certificate container references are not allowed on %s protocol listeners.",
			l.Protocol)
	case terminates && !certified:
		return invalid(
			"An SNI or default certificate container reference must be provided for %s protocol listeners.", l.Protocol)
	}
	return nil
}

// admitHeaders checks the headers.
func admitHeaders(l *Listener) error {
	if len(l.InsertHeaders) == 0 {
		return nil
	}
	if l.Protocol != protocolHTTP && l.Protocol != protocolTerminated {
		return badOption("insert-headers", "a "+l.Protocol+" protocol listener.")
	}
	plain := []string{"X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto"}
	ssl := []string{
		"X-SSL-Client-Verify", "X-SSL-Client-Has-Cert", "X-SSL-Client-DN", "X-SSL-Client-CN",
		"X-SSL-Issuer", "X-SSL-Client-SHA1", "X-SSL-Client-Not-Before", "X-SSL-Client-Not-After",
	}
	for _, header := range api.SortedKeys(l.InsertHeaders) {
		switch {
		case slices.Contains(plain, header):
		case !slices.Contains(ssl, header):
			return badOption(pythonList(api.SortedKeys(l.InsertHeaders)),
				"insert_headers")
		case l.Protocol != protocolTerminated:
			return badOption(pythonList([]string{header}), l.Protocol+" protocol listener.")
		}
	}
	return nil
}

// pythonList is a list of texts in Python's form.
func pythonList(texts []string) string { return "['" + strings.Join(texts, "', '") + "']" }

// admitPort refuses a second listener for a port of the same transport. Before API 2.17, all
// transports shared the ports.
func admitPort(l *Listener, others []Listener) error {
	for other := range each(others) {
		if other != l && other.ProtocolPort == l.ProtocolPort &&
			transport(other.Protocol) == transport(l.Protocol) {
			return api.Refuse(http.StatusConflict,
				"Another Listener on this Load Balancer is already using protocol %s and protocol_port %d",
				other.Protocol, l.ProtocolPort)
		}
	}
	return nil
}

// minorAllVIPs is the API's minor version from which CIDRs of each VIP's family can be used. The
// previous release (2.26, Zed) has additional VIPs, but checks only the first VIP. Its worker fails
// to create the rules of a CIDR for the family of another VIP, so a load balancer with additional
// VIPs of the other family and any CIDRs ends in ERROR.
const minorAllVIPs = 27

// admitCIDRs refuses a CIDR without a VIP of its family (_validate_cidr_compatible_with_vip).
func (s *Service) admitCIDRs(t *tree, cidrs []string) error {
	vips := t.addresses()
	all := s.options.Minor >= minorAllVIPs
	if !all {
		vips = vips[:1]
	}
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		compatible := slices.ContainsFunc(vips, func(vip string) bool {
			address, errVIP := netip.ParseAddr(vip)
			return err == nil && errVIP == nil && address.Is4() == prefix.Addr().Is4()
		})
		if compatible {
			continue
		}
		if !all {
			return invalid("CIDR %s IP version incompatible with VIP %s IP version.", cidr,
				vips[0])
		}
		return invalid("CIDR %s IP version incompatible with all VIPs %s IP version.", cidr,
			pythonList(vips))
	}
	return nil
}

// admitPersistence has the checks of _validate_pool_request_for_udp_sctp and
// validate.check_session_persistence. only are the protocols that the refusal of a timeout names.
func admitPersistence(p *Pool, only string) error {
	s := p.SessionPersistence
	if s == nil {
		return nil
	}
	const datagrams = "UDP/SCTP"
	switch {
	case isDatagram(p.Protocol) && s.CookieName != "":
		return invalid("Cookie names are not supported for %s pools.", datagrams)
	case isDatagram(p.Protocol) && s.Type != persistenceSourceIP:
		return invalid(
			"Session persistence of type %s is not supported for %s protocol pools.", s.Type,
			datagrams)
	case !isDatagram(p.Protocol) && (s.TimeoutSeconds != 0 || s.Granularity != ""):
		return invalid(
			"persistence_timeout and persistence_granularity is only for %s protocol pools.", only)
	case s.Type == "":
		return invalid("Invalid session_persistence provided.")
	case s.CookieName != "" && s.Type != persistenceAppCookie:
		return invalid(
			`Field "cookie_name" can only be specified with session persistence of type "APP_COOKIE".`)
	case s.CookieName == "" && s.Type == persistenceAppCookie:
		return invalid(
			`Field "cookie_name" must be specified when using the "APP_COOKIE" session persistence type.`)
	}
	return nil
}

// admitMember refuses the metadata service's address (networking.reserved_ips).
func admitMember(m *Member) error {
	if m.Address == "169.254.169.254" {
		return badOption(m.Address, "member address")
	}
	return nil
}

// admitAddress refuses a second member with the same address and port, also in another subnet (the
// constraint uq_member_pool_id_address_protocol_port of the database).
func admitAddress(m *Member, others []Member) error {
	for other := range each(others) {
		if other != m && other.Address == m.Address && other.ProtocolPort == m.ProtocolPort {
			return api.Refuse(http.StatusConflict,
				"Another member on this pool is already using ip %s on protocol_port %d", m.Address,
				m.ProtocolPort)
		}
	}
	return nil
}

// leastUDPDelay is the shortest delay of a UDP-CONNECT monitor in seconds
// (api_settings.udp_connect_min_interval_health_monitor).
const leastUDPDelay = 3

// admitMonitor checks a monitor for a pool (HealthMonitorController._validate_create_hm and
// _validate_healthmonitor_request_for_udp_sctp), and sets the defaults for HTTP. The API reference
// requires a timeout below the delay, but Octavia does not check it.
func admitMonitor(m *HealthMonitor, protocol string) error {
	if err := admitMonitorType(m, protocol); err != nil {
		return err
	}
	if m.Type == monitorHTTP || m.Type == monitorHTTPS {
		setDefault(&m.HTTPMethod, "GET")
		setDefault(&m.URLPath, "/")
		setDefault(&m.ExpectedCodes, "200")
	} else {
		for _, f := range []struct{ name, value string }{
			{"http_method", m.HTTPMethod},
			{"url_path", m.URLPath},
			{"expected_codes", m.ExpectedCodes},
		} {
			if f.value != "" {
				return badOption(f.name, "health monitors of type "+m.Type)
			}
		}
	}
	switch {
	case m.DomainName != "" && m.HTTPVersion == 0:
		return invalid("'http_version' must be specified when 'domain_name' is provided.")
	case m.DomainName != "" && m.HTTPVersion < 1.1:
		return badOption("http_version 1.0",
			"health monitors HTTP 1.1 domain name health check")
	}
	return nil
}

func admitMonitorType(m *HealthMonitor, protocol string) error {
	if !isDatagram(protocol) {
		if m.Type == monitorUDPConnect || m.Type == monitorSCTP {
			return invalid("The %s type is only supported for pools of type UDP/SCTP.",
				m.Type)
		}
		return nil
	}
	allowed := []string{monitorUDPConnect, monitorSCTP, monitorTCP, monitorHTTP}
	if !slices.Contains(allowed, m.Type) {
		return invalid(
			"The associated pool protocol is %s, so only a %s health monitor is supported.",
			protocol, strings.Join(allowed, "/"))
	}
	if m.Type == monitorUDPConnect && m.Delay < leastUDPDelay {
		return invalid(
			"The request delay value %d should be larger than %d for %s health monitor type.",
			m.Delay, leastUDPDelay, m.Type)
	}
	return nil
}

func setDefault(at *string, value string) { *at = cmp.Or(*at, value) }
