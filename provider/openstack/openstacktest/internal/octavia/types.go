package octavia

import (
	"encoding/json"
	"math"
	"slices"
)

// The values that Octavia knows (octavia-lib, octavia_lib/common/constants.py).
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
	monitorPing       = "PING"
	monitorTCP        = "TCP"
	monitorTLSHello   = "TLS-HELLO"
	monitorUDPConnect = "UDP-CONNECT"
	monitorSCTP       = "SCTP"

	persistenceSourceIP   = "SOURCE_IP"
	persistenceHTTPCookie = "HTTP_COOKIE"
	persistenceAppCookie  = "APP_COOKIE"
)

func listenerProtocols() []string {
	return []string{
		protocolTCP, protocolHTTPS, protocolHTTP, protocolTerminated, protocolUDP, protocolSCTP,
		protocolPrometheus,
	}
}

func poolProtocols() []string {
	return []string{
		protocolTCP, protocolHTTPS, protocolHTTP, protocolProxy, protocolProxyV2,
		protocolUDP, protocolSCTP,
	}
}

func lbAlgorithms() []string {
	return []string{"LEAST_CONNECTIONS", "ROUND_ROBIN", "SOURCE_IP", "SOURCE_IP_PORT"}
}

func monitorTypes() []string {
	return []string{
		monitorHTTP, monitorHTTPS, monitorPing, monitorTCP, monitorTLSHello,
		monitorUDPConnect, monitorSCTP,
	}
}

// The most milliseconds of a timeout: 24 days (octavia/common/constants.py).
const mostTimeout = 24 * 24 * 60 * 60 * 1000

func loadBalancerFields() octaviaType[LoadBalancer] {
	return append(commonFields(func(row *LoadBalancer) *OctaviaResource {
		return &row.OctaviaResource
	}),
		octaviaText("description", func(row *LoadBalancer) *string { return &row.Description }),
		octaviaReference("vip_address", func(row *LoadBalancer) *string { return &row.VIPAddress },
			isIP).atCreation(),
		octaviaID("vip_port_id",
			func(row *LoadBalancer) *string { return &row.VIPPortID }).atCreation(),
		octaviaID("vip_subnet_id",
			func(row *LoadBalancer) *string { return &row.VIPSubnetID }).atCreation(),
		octaviaID("vip_network_id",
			func(row *LoadBalancer) *string { return &row.VIPNetworkID }).atCreation(),
		octaviaID("vip_qos_policy_id",
			func(row *LoadBalancer) *string { return &row.VIPQoSPolicyID }),
		octaviaReference("provider", func(row *LoadBalancer) *string { return &row.Provider },
			anyText).atCreation(),
		octaviaID("flavor_id",
			func(row *LoadBalancer) *string { return &row.FlavorID }).atCreation().from(6),
		octaviaReference("availability_zone",
			func(row *LoadBalancer) *string {
				return &row.AvailabilityZone
			}, anyText).atCreation().from(14),
		additionalVIPsField().atCreation().from(26),
	)
}

func additionalVIPsField() octaviaField[LoadBalancer] {
	type body struct {
		SubnetID string `json:"subnet_id"`
		Address  string `json:"ip_address"`
	}
	return octaviaField[LoadBalancer]{
		name:  "additional_vips",
		inner: admitVIPFields,
		get: func(row *LoadBalancer) any {
			vips := []object{}
			for _, vip := range row.AdditionalVIPs {
				vips = append(vips, object{"subnet_id": vip.SubnetID, "ip_address": vip.Address})
			}
			return vips
		},
		set: func(row *LoadBalancer, raw json.RawMessage) string {
			var vips []body
			if why := readJSON(raw, &vips,
				"Value should be an array of additional VIPs."); why != "" {
				return why
			}
			row.AdditionalVIPs = nil
			for _, vip := range vips {
				row.AdditionalVIPs = append(row.AdditionalVIPs,
					AdditionalVIP{SubnetID: withHyphens(vip.SubnetID), Address: vip.Address})
			}
			return ""
		},
	}
}

func listenerFields() octaviaType[Listener] {
	timeout := func(name string, at func(*Listener) *int, otherwise int) octaviaField[Listener] {
		return octaviaInt(name, at, 0, mostTimeout, otherwise).from(1)
	}
	return append(commonFields(func(row *Listener) *OctaviaResource {
		return &row.OctaviaResource
	}),
		octaviaText("description", func(row *Listener) *string { return &row.Description }),
		octaviaReference("protocol", func(row *Listener) *string { return &row.Protocol },
			oneOf(listenerProtocols()...)).required(),
		octaviaInt("protocol_port", func(row *Listener) *int { return &row.ProtocolPort }, 1, 65535,
			0).required(),
		octaviaID("default_pool_id", func(row *Listener) *string { return &row.DefaultPoolID }),
		octaviaInt("connection_limit", func(row *Listener) *int { return &row.ConnectionLimit }, -1,
			math.MaxInt32, -1),
		insertHeadersField(),
		allowedCIDRsField().from(12),
		timeout("timeout_client_data", func(row *Listener) *int { return &row.TimeoutClientData },
			50000),
		timeout("timeout_member_connect",
			func(row *Listener) *int { return &row.TimeoutMemberConnect }, 5000),
		timeout("timeout_member_data", func(row *Listener) *int { return &row.TimeoutMemberData },
			50000),
		timeout("timeout_tcp_inspect", func(row *Listener) *int { return &row.TimeoutTCPInspect },
			0),
		octaviaReference("default_tls_container_ref",
			func(row *Listener) *string { return &row.DefaultTLSContainerRef }, anyText),
		octaviaTexts("sni_container_refs",
			func(row *Listener) *[]string { return &row.SNIContainerRefs }, false),
		octaviaReference("client_authentication",
			func(row *Listener) *string { return &row.ClientAuthentication },
			oneOf("NONE", "OPTIONAL", "MANDATORY")).otherwise("NONE").from(8),
		octaviaReference("client_ca_tls_container_ref",
			func(row *Listener) *string { return &row.ClientCATLSContainer }, anyText).from(8),
		octaviaReference("client_crl_container_ref",
			func(row *Listener) *string { return &row.ClientCRLContainer }, anyText).from(8),
		octaviaReference("tls_ciphers", func(row *Listener) *string { return &row.TLSCiphers },
			anyText).from(15),
		octaviaTexts("tls_versions", func(row *Listener) *[]string { return &row.TLSVersions },
			true).from(17),
		octaviaTexts("alpn_protocols", func(row *Listener) *[]string { return &row.ALPNProtocols },
			true).from(20),
		octaviaOptionalInt("hsts_max_age", func(row *Listener) *int { return &row.HSTSMaxAge }, 0,
			math.MaxInt32).from(27),
		octaviaBool("hsts_include_subdomains",
			func(row *Listener) *bool { return &row.HSTSIncludeSubdomains }).from(27),
		octaviaBool("hsts_preload", func(row *Listener) *bool { return &row.HSTSPreload }).from(27),
	)
}

// allowedCIDRsField keeps the CIDRs as networks, each once.
func allowedCIDRsField() octaviaField[Listener] {
	f := octaviaTexts("allowed_cidrs", func(row *Listener) *[]string { return &row.AllowedCIDRs },
		true, isCIDR)
	set := f.set
	f.set = func(row *Listener, raw json.RawMessage) string {
		why := set(row, raw)
		given := row.AllowedCIDRs
		row.AllowedCIDRs = nil
		for _, cidr := range given {
			if network, ok := parseCIDR(cidr); ok &&
				!slices.Contains(row.AllowedCIDRs, network.String()) {
				row.AllowedCIDRs = append(row.AllowedCIDRs, network.String())
			}
		}
		return why
	}
	return f
}

func insertHeadersField() octaviaField[Listener] {
	return octaviaField[Listener]{
		name: "insert_headers",
		get: func(row *Listener) any {
			headers := object{}
			for name, value := range row.InsertHeaders {
				headers[name] = value
			}
			return headers
		},
		set: func(row *Listener, raw json.RawMessage) string {
			row.InsertHeaders = nil
			return readJSON(raw, &row.InsertHeaders, "Value should be a dictionary of strings.")
		},
	}
}

func poolFields() octaviaType[Pool] {
	return append(commonFields(func(row *Pool) *OctaviaResource { return &row.OctaviaResource }),
		octaviaText("description", func(row *Pool) *string { return &row.Description }),
		octaviaReference("protocol", func(row *Pool) *string { return &row.Protocol },
			oneOf(poolProtocols()...)).required(),
		octaviaReference("lb_algorithm", func(row *Pool) *string { return &row.LBAlgorithm },
			oneOf(lbAlgorithms()...)).mandatory(),
		persistenceField(),
		octaviaReference("tls_container_ref",
			func(row *Pool) *string { return &row.TLSContainerRef }, anyText).from(8),
		octaviaReference("ca_tls_container_ref",
			func(row *Pool) *string { return &row.CATLSContainer }, anyText).from(8),
		octaviaReference("crl_container_ref", func(row *Pool) *string { return &row.CRLContainer },
			anyText).from(8),
		octaviaBool("tls_enabled", func(row *Pool) *bool { return &row.TLSEnabled }).from(8),
		octaviaReference("tls_ciphers", func(row *Pool) *string { return &row.TLSCiphers },
			anyText).from(15),
		octaviaTexts("tls_versions", func(row *Pool) *[]string { return &row.TLSVersions },
			true).from(17),
		octaviaTexts("alpn_protocols", func(row *Pool) *[]string { return &row.ALPNProtocols },
			true).from(24),
	)
}

func persistenceField() octaviaField[Pool] {
	type body struct {
		Type        *string `json:"type"`
		CookieName  *string `json:"cookie_name"`
		Timeout     *int    `json:"persistence_timeout"`
		Granularity *string `json:"persistence_granularity"`
	}
	return octaviaField[Pool]{
		name:  "session_persistence",
		inner: admitPersistenceFields,
		get: func(row *Pool) any {
			p := row.SessionPersistence
			if p == nil {
				return nil
			}
			return body{
				Type: &p.Type, CookieName: orNil(p.CookieName),
				Timeout: orNil(p.TimeoutSeconds), Granularity: orNil(p.Granularity),
			}
		},
		set: func(row *Pool, raw json.RawMessage) string {
			var given *body
			if why := readJSON(raw, &given, "Value should be a session persistence."); why != "" {
				return why
			}
			// null and {} remove it (octavia/db/repositories.py, update_pool_and_sp).
			if given == nil || *given == (body{}) {
				row.SessionPersistence = nil
				return ""
			}
			p := SessionPersistence{
				CookieName:     orZero(given.CookieName),
				TimeoutSeconds: orZero(given.Timeout), Granularity: orZero(given.Granularity),
			}
			switch {
			case given.Type != nil:
				p.Type = *given.Type
			case row.SessionPersistence != nil:
				p.Type = row.SessionPersistence.Type
			}
			row.SessionPersistence = &p
			return ""
		},
	}
}

// admitPersistenceFields checks them as WSME does.
func admitPersistenceFields(path string, raw json.RawMessage) error {
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return nil
	}
	if kind := parentID(given, "type"); kind != "" {
		if why := oneOf(persistenceSourceIP, persistenceHTTPCookie,
			persistenceAppCookie)(kind); why != "" {
			return badInput("type", kind, why)
		}
	}
	return unknownAttributes(path, given, map[string]bool{
		"type": true, "cookie_name": true, "persistence_timeout": true,
		"persistence_granularity": true,
	})
}

// admitVIPFields checks those of the additional VIPs as WSME does.
func admitVIPFields(path string, raw json.RawMessage) error {
	var vips []map[string]json.RawMessage
	if json.Unmarshal(raw, &vips) != nil {
		return nil
	}
	for _, given := range vips {
		if err := unknownAttributes(path, given,
			map[string]bool{"subnet_id": true, "ip_address": true}); err != nil {
			return err
		}
		if !present(given, "subnet_id") {
			return badInput("subnet_id", "None", "Mandatory field missing.")
		}
		for name, is := range map[string]check{"subnet_id": isUUID, "ip_address": isIP} {
			if value := parentID(given, name); value != "" && is(value) != "" {
				return badInput(name, value, is(value))
			}
		}
	}
	return nil
}

func orNil[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func orZero[T any](value *T) T {
	if value == nil {
		var zero T
		return zero
	}
	return *value
}

func memberFields() octaviaType[Member] {
	return append(commonFields(func(row *Member) *OctaviaResource { return &row.OctaviaResource }),
		octaviaReference("address", func(row *Member) *string { return &row.Address },
			isIP).required(),
		octaviaInt("protocol_port", func(row *Member) *int { return &row.ProtocolPort }, 1, 65535,
			0).required(),
		octaviaID("subnet_id", func(row *Member) *string { return &row.SubnetID }).atCreation(),
		octaviaInt("weight", func(row *Member) *int { return &row.Weight }, 0, 256, 1),
		octaviaBool("backup", func(row *Member) *bool { return &row.Backup }).from(1),
		octaviaReference("monitor_address",
			func(row *Member) *string { return &row.MonitorAddress }, isIP),
		octaviaOptionalInt("monitor_port", func(row *Member) *int { return &row.MonitorPort }, 1,
			65535),
	)
}

func monitorFields() octaviaType[HealthMonitor] {
	retries := func(name string, at func(*HealthMonitor) *int) octaviaField[HealthMonitor] {
		return octaviaInt(name, at, 1, 10, 3)
	}
	return append(commonFields(func(row *HealthMonitor) *OctaviaResource {
		return &row.OctaviaResource
	}),
		octaviaReference("type", func(row *HealthMonitor) *string { return &row.Type },
			oneOf(monitorTypes()...)).required(),
		octaviaInt("delay", func(row *HealthMonitor) *int { return &row.Delay }, 0, math.MaxInt32,
			0).mandatory(),
		octaviaInt("timeout", func(row *HealthMonitor) *int { return &row.Timeout }, 0,
			math.MaxInt32, 0).mandatory(),
		retries("max_retries",
			func(row *HealthMonitor) *int { return &row.MaxRetries }).mandatory(),
		retries("max_retries_down", func(row *HealthMonitor) *int { return &row.MaxRetriesDown }),
		octaviaReference("http_method", func(row *HealthMonitor) *string { return &row.HTTPMethod },
			oneOf("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH")),
		octaviaReference("url_path", func(row *HealthMonitor) *string { return &row.URLPath },
			isURLPath),
		octaviaReference("expected_codes",
			func(row *HealthMonitor) *string { return &row.ExpectedCodes }, isExpectedCodes),
		httpVersionField(),
		octaviaReference("domain_name", func(row *HealthMonitor) *string { return &row.DomainName },
			anyText).from(10),
	)
}

func httpVersionField() octaviaField[HealthMonitor] {
	f := octaviaField[HealthMonitor]{
		name:  "http_version",
		since: 10,
		get: func(row *HealthMonitor) any {
			if row.HTTPVersion == 0 {
				return nil
			}
			return row.HTTPVersion
		},
	}
	// A number as text is a number for WSME, and gophercloud sends it so.
	f.set = func(row *HealthMonitor, raw json.RawMessage) string {
		row.HTTPVersion = 0
		if isJSONNull(raw) {
			return ""
		}
		if why := readJSON([]byte(wsmeValue(raw)), &row.HTTPVersion,
			"Value should be of type float."); why != "" {
			return why
		}
		if !slices.Contains([]float64{1.0, 1.1}, row.HTTPVersion) {
			return "Value should be one of: 1.0, 1.1"
		}
		return ""
	}
	return f
}
