package octavia

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// The values that Octavia supports (octavia-lib, octavia_lib/common/constants.py).
const (
	protocolTCP        = "TCP"
	protocolUDP        = "UDP"
	protocolSCTP       = "SCTP"
	protocolHTTP       = "HTTP"
	protocolHTTPS      = "HTTPS"
	protocolTerminated = "TERMINATED_HTTPS"
	protocolPrometheus = "PROMETHEUS"
	protocolProxy      = "PROXY"
	protocolProxyV2    = "PROXYV2"

	monitorHTTP       = "HTTP"
	monitorHTTPS      = "HTTPS"
	monitorTCP        = "TCP"
	monitorUDPConnect = "UDP-CONNECT"
	monitorSCTP       = "SCTP"

	persistenceSourceIP   = "SOURCE_IP"
	persistenceHTTPCookie = "HTTP_COOKIE"
	persistenceAppCookie  = "APP_COOKIE"
)

// types are the attributes of the resources in this version of the API.
type types struct {
	loadBalancer resource.Fields[LoadBalancer]
	listener     resource.Fields[Listener]
	pool         resource.Fields[Pool]
	member       resource.Fields[Member]
	monitor      resource.Fields[HealthMonitor]
}

func typesAt(minor int) types {
	t := types{
		loadBalancer: resource.Of(additionalVIPs()), listener: resource.Of[Listener](),
		pool: resource.Of(sessionPersistence()), member: resource.Of[Member](),
		monitor: resource.Of[HealthMonitor](),
	}
	t.listener.Change("allowed_cidrs", func(l *Listener, _ json.RawMessage) error {
		l.AllowedCIDRs = networks(l.AllowedCIDRs)
		return nil
	})
	t.monitor.Change("url_path", func(m *HealthMonitor, _ json.RawMessage) error {
		if m.URLPath != "" && (m.URLPath[0] != '/' || strings.ContainsAny(m.URLPath, " \t\n")) {
			return &resource.InvalidError{
				Field: "url_path", Value: m.URLPath, Why: "Value must be a valid URL Path string",
			}
		}
		return nil
	})
	codes := regexp.MustCompile(`^(\d{3}(\s*,\s*\d{3})*)$|^(\d{3}-\d{3})$`)
	t.monitor.Change("expected_codes", func(m *HealthMonitor, _ json.RawMessage) error {
		if m.ExpectedCodes != "" && !codes.MatchString(m.ExpectedCodes) {
			return &resource.InvalidError{
				Field: "expected_codes", Value: m.ExpectedCodes,
				Why: "Value should match the pattern " + codes.String(),
			}
		}
		return nil
	})
	t.loadBalancer, t.listener = from(minor, t.loadBalancer), from(minor, t.listener)
	t.pool, t.monitor = from(minor, t.pool), from(minor, t.monitor)
	t.member = from(minor, t.member)
	return t
}

func from[T any](minor int, fields resource.Fields[T]) resource.Fields[T] {
	fields.Field("tenant_id").Unfiltered = true
	return fields.On(func(f resource.Field[T]) bool { return f.Since <= minor })
}

// networks are the networks of CIDRs, without duplicates (octavia/api/common/types.py, CidrType).
func networks(cidrs []string) (all []string) {
	for _, cidr := range cidrs {
		if address, err := netip.ParseAddr(cidr); err == nil {
			cidr = netip.PrefixFrom(address, address.BitLen()).String()
		}
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			cidr = prefix.Masked().String()
		}
		if !slices.Contains(all, cidr) {
			all = append(all, cidr)
		}
	}
	return all
}

// wsme has the texts of WSME, which reads Octavia's bodies. Its value is the path of an object in
// the request.
type wsme string

func (wsme) Missing(name string, null bool) error {
	if null {
		return badOption("None", name)
	}
	return badInput(name, "None", "Mandatory field missing.")
}

func (path wsme) Unknown(within string, names []string) error {
	argument, plural := string(path), ""
	if within != "" {
		argument += "." + within
	}
	if len(names) > 1 {
		plural = "s"
	}
	return api.Refuse(http.StatusBadRequest, "Unknown attribute%s for argument %s: %s", plural,
		argument, strings.Join(names, ", "))
}

func (path wsme) ReadOnly(name string, _ bool) error { return path.Unknown("", []string{name}) }

// UnknownFilter is InvalidFilterArgument.
func (wsme) UnknownFilter(string) error {
	return api.Refuse(http.StatusBadRequest,
		"One or more arguments are either duplicate or invalid")
}

func (wsme) NotBool(text string) error {
	return badInput("admin_state_up", text, "Value should be of type bool.")
}

func (wsme) Invalid(e *resource.InvalidError) error { return badInput(e.Field, e.Value, e.Why) }

// additionalVIPs needs a subnet for each address.
func additionalVIPs() resource.Field[LoadBalancer] {
	const name = "additional_vips"
	fields := resource.Of[AdditionalVIP]()
	return resource.Field[LoadBalancer]{
		Name: name, CreateOnly: true, Since: 26, Unfiltered: true,
		Get: func(lb *LoadBalancer) any { return api.NonNil(lb.AdditionalVIPs) },
		Set: func(lb *LoadBalancer, raw json.RawMessage) error {
			list, err := objects(body{name: raw}, name)
			if err != nil {
				return err
			}
			lb.AdditionalVIPs = nil
			for _, given := range list {
				if err := fields.Unknown(name, given); err != nil {
					return err
				}
				var vip AdditionalVIP
				if err := fields.Read(&vip, given, true, wsme(name)); err != nil {
					return err
				}
				lb.AdditionalVIPs = append(lb.AdditionalVIPs, vip)
			}
			return nil
		},
	}
}

// sessionPersistence is always shown with all its attributes. A change without the type keeps it;
// null and {} remove the persistence (octavia/db/repositories.py, update_pool_and_sp).
func sessionPersistence() resource.Field[Pool] {
	const name = "session_persistence"
	fields := resource.Of[SessionPersistence]()
	return resource.Field[Pool]{
		Name: name, Unfiltered: true,
		Get: func(p *Pool) any {
			if p.SessionPersistence == nil {
				return nil
			}
			return fields.Show(p.SessionPersistence)
		},
		Set: func(p *Pool, raw json.RawMessage) error {
			given, err := child(body{name: raw}, name)
			if err != nil {
				return err
			}
			if len(given) == 0 {
				p.SessionPersistence = nil
				return nil
			}
			if err := fields.Unknown(name, given); err != nil {
				return err
			}
			changed := &SessionPersistence{}
			if old := p.SessionPersistence; old != nil {
				changed.Type = old.Type
			}
			p.SessionPersistence = changed
			return fields.Read(changed, given, true, wsme(name))
		},
	}
}
