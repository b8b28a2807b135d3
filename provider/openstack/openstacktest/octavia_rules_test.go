package openstacktest

import (
	"net/http"
	"strings"
	"testing"
)

func TestRefusals_HaveTheAPIsForm(t *testing.T) {
	s := start(t)
	network, subnet := vipSubnet(s, "10.0.0.0/24")
	used := s.AddPort(Port{
		NetworkID: network, DeviceID: "a-server",
		FixedIPs: []FixedIP{{SubnetID: subnet, Address: "10.0.0.200"}},
	})
	secret := s.AddSecret(Secret{})
	lb := s.AddLoadBalancer(LoadBalancer{
		VIPSubnetID: subnet,
		Pools: []Pool{
			{
				OctaviaResource: OctaviaResource{ID: "00000000-0000-4000-8000-0000000000a0"},
				Protocol:        "TCP", LBAlgorithm: "ROUND_ROBIN",
				Members: []Member{{Address: "10.0.0.11", ProtocolPort: 1}},
				Monitor: &HealthMonitor{Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 1},
			},
			{OctaviaResource: OctaviaResource{ID: "00000000-0000-4000-8000-0000000000a1"}, Protocol: "UDP", LBAlgorithm: "ROUND_ROBIN"},
		},
		Listeners: []Listener{{
			OctaviaResource: OctaviaResource{ID: "00000000-0000-4000-8000-0000000000b0"},
			Protocol:        "TCP", ProtocolPort: 80,
			DefaultPoolID: "00000000-0000-4000-8000-0000000000a0",
		}, {
			OctaviaResource: OctaviaResource{ID: "00000000-0000-4000-8000-0000000000b1"},
			Protocol:        "UDP", ProtocolPort: 80,
		}},
	})
	const (
		nothing = "00000000-0000-4000-8000-0000000000ff"
		pool    = "00000000-0000-4000-8000-0000000000a0"
		udpPool = "00000000-0000-4000-8000-0000000000a1"
		tcp     = "00000000-0000-4000-8000-0000000000b0"
		udp     = "00000000-0000-4000-8000-0000000000b1"
	)
	listener := func(rest string) string {
		return `{"listener": {"loadbalancer_id": "` + lb + `", ` + rest + `}}`
	}
	newLB := func(rest string) string { return `{"loadbalancer": {` + rest + `}}` }
	whole := func(rest string) string { return newLB(`"vip_subnet_id": "` + subnet + `", ` + rest) }
	monitor := func(pool, rest string) string {
		return `{"healthmonitor": {"pool_id": "` + pool +
			`", "delay": 5, "timeout": 3, "max_retries": 1, ` + rest + `}}`
	}
	before := states(must(s.LoadBalancer(lb))(t))

	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		// Load balancers.
		{"GET", "loadbalancers/" + nothing, "", 404, "Load Balancer " + nothing + " not found."},
		{"PUT", "loadbalancers/" + nothing, newLB(""), 404, "Load Balancer " + nothing + " not found."},
		{"DELETE", "loadbalancers/" + nothing, "", 404, "Load Balancer " + nothing + " not found."},
		{"DELETE", "loadbalancers/" + lb, "", 400, "Validation failure: Cannot delete Load Balancer " + lb + " - it has children"},
		{"GET", "loadbalancers?colour=red", "", 400, "One or more arguments are either duplicate or invalid"},
		{"GET", "loadbalancers?name=a&name=b", "", 500, "Illegal parameter data types varchar and row for operation '='"},
		{"GET", "loadbalancers?marker=x", "", 400, "Supplied pagination marker 'x' is not valid."},
		{"GET", "loadbalancers?limit=x", "", 400, "Supplied pagination limit 'x' is not valid."},
		{"GET", "loadbalancers?sort_key=x", "", 400, "Supplied sort key 'x' is not valid."},
		{"GET", "loadbalancers?sort=name:up", "", 400, "Supplied sort direction 'up' is not valid."},
		{"POST", "loadbalancers", `{}`, 400, "Invalid input for field/attribute loadbalancer. Value: 'None'. Mandatory field missing."},
		{"POST", "loadbalancers", newLB(`"name": "x"`), 400, "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id."},
		{
			"POST", "loadbalancers", newLB(`"vip_subnet_id": "x"`), 400,
			"Invalid input for field/attribute vip_subnet_id. Value: 'x'. Value should be UUID format",
		},
		{"POST", "loadbalancers", newLB(`"vip_subnet_id": "` + nothing + `"`), 400, "Subnet " + nothing + " not found."},
		{"POST", "loadbalancers", newLB(`"vip_network_id": "` + nothing + `"`), 400, "Network " + nothing + " not found."},
		{"POST", "loadbalancers", newLB(`"vip_port_id": "` + nothing + `"`), 400, "Port " + nothing + " not found."},
		{"POST", "loadbalancers", newLB(`"vip_port_id": "` + used + `"`), 400, "Validation failure: Port " + used + " is already used by device a-server "},
		{
			"POST", "loadbalancers",
			newLB(`"vip_network_id": "` + network + `", "vip_address": "10.9.9.9"`), 400,
			"Validation failure: Supplied network does not contain a subnet for VIP address specified.",
		},
		{
			"POST", "loadbalancers", whole(`"vip_address": "10.0.0.200"`), 500,
			"Provider 'amphora' reports error: IP address 10.0.0.200 already allocated in subnet " +
				subnet,
		},
		{
			"POST", "loadbalancers", whole(`"vip_address": "x"`), 400,
			"Invalid input for field/attribute vip_address. Value: 'x'. Value should be IPv4 or IPv6 format",
		},
		{"POST", "loadbalancers", whole(`"colour": "red"`), 400, "Unknown attribute for argument load_balancer.loadbalancer: colour"},
		{"POST", "loadbalancers", whole(`"provider": "x"`), 400, "Provider 'x' is not enabled."},
		{"POST", "loadbalancers", whole(`"flavor_id": "` + nothing + `"`), 400, "Validation failure: Invalid flavor_id."},
		{"POST", "loadbalancers", whole(`"availability_zone": "x"`), 400, "Validation failure: Invalid availability zone."},
		{
			"POST", "loadbalancers", whole(`"name": "` + strings.Repeat("n", 256) + `"`), 400,
			"Invalid input for field/attribute name. Value: '" + strings.Repeat("n", 256) +
				"'. Value should have a maximum character requirement of 255",
		},
		{
			"POST", "loadbalancers",
			whole(
				`"listeners": [{"protocol": "TCP", "protocol_port": 1, "default_pool": {"protocol": "TCP"}}]`), 400, "Validation failure: Pools must be named when creating a fully populated loadbalancer.",
		},
		{
			"POST", "loadbalancers",
			whole(
				`"listeners": [{"protocol": "TCP", "protocol_port": 1, "default_pool": {"name": "p"}}]`), 400, "Validation failure: Pool 'p' was referenced but no full definition was found.",
		},
		{
			"POST", "loadbalancers", whole(`"pools": [{"name": "p", "protocol": "TCP"}]`), 400,
			"Validation failure: Pool definition for 'p' missing required attribute: lb_algorithm",
		},
		{
			"POST", "loadbalancers",
			whole(
				`"pools": [{"name": "p", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}, {"name": "p", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}]`), 400, "Validation failure: Pool names must be unique when creating a fully populated loadbalancer.",
		},
		{
			"POST", "loadbalancers",
			whole(
				`"listeners": [{"protocol": "TCP", "protocol_port": 1}, {"protocol": "HTTP", "protocol_port": 1}]`), 409, "Another Listener on this Load Balancer is already using protocol TCP and protocol_port 1",
		},
		{"POST", "loadbalancers", whole(`"listeners": [{"protocol": "TCP", "protocol_port": 1, "l7policies": [{}]}]`), 501, "L7 policies are not simulated."},
		{"PUT", "loadbalancers/" + lb, newLB(`"vip_address": "10.0.0.1"`), 400, "Unknown attribute for argument load_balancer.loadbalancer: vip_address"},
		{
			"PUT", "loadbalancers/" + lb, newLB(`"admin_state_up": "maybe"`), 400,
			"Invalid input for field/attribute admin_state_up. Value: 'maybe'. Value should be of type bool.",
		},

		// Listeners.
		{"GET", "listeners/" + nothing, "", 404, "Listener " + nothing + " not found."},
		{"POST", "listeners", listener(`"protocol_port": 1`), 400, "Invalid input for field/attribute protocol. Value: 'None'. Mandatory field missing."},
		{
			"POST", "listeners", `{"listener": {"protocol": "TCP", "protocol_port": 1}}`, 400,
			"Invalid input for field/attribute loadbalancer_id. Value: 'None'. Mandatory field missing.",
		},
		{
			"POST", "listeners", listener(`"protocol": "PROXY", "protocol_port": 1`), 400,
			"Invalid input for field/attribute protocol. Value: 'PROXY'. Value should be one of: TCP, HTTPS, HTTP, TERMINATED_HTTPS, UDP, SCTP, PROMETHEUS",
		},
		{
			"POST", "listeners", listener(`"protocol": "TCP", "protocol_port": 0`), 400,
			"Invalid input for field/attribute protocol_port. Value: '0'. Value should be greater or equal to 1",
		},
		{
			"POST", "listeners", listener(`"protocol": "TCP", "protocol_port": 65536`), 400,
			"Invalid input for field/attribute protocol_port. Value: '65536'. Value should be lower or equal to 65535",
		},
		{
			"POST", "listeners", listener(`"protocol": "HTTP", "protocol_port": 80`), 409,
			"Another Listener on this Load Balancer is already using protocol TCP and protocol_port 80",
		},
		{
			"POST", "listeners",
			listener(`"protocol": "TCP", "protocol_port": 1, "timeout_client_data": 2073600001`),
			400,
			"Invalid input for field/attribute timeout_client_data. Value: '2073600001'. Value should be lower or equal to 2073600000",
		},
		{
			"POST", "listeners",
			listener(`"protocol": "TCP", "protocol_port": 1, "connection_limit": -2`), 400,
			"Invalid input for field/attribute connection_limit. Value: '-2'. Value should be greater or equal to -1",
		},
		{
			"POST", "listeners",
			listener(`"protocol": "TCP", "protocol_port": 1, "allowed_cidrs": ["x"]`), 400,
			`Invalid input for field/attribute allowed_cidrs. Value: '['x']'. Value should be IPv4 or IPv6 CIDR format`,
		},
		{
			"POST", "listeners",
			listener(`"protocol": "TCP", "protocol_port": 1, "allowed_cidrs": ["::/0"]`), 400,
			"Validation failure: CIDR ::/0 IP version incompatible with all VIPs ['" +
				must(s.LoadBalancer(lb))(t).VIPAddress + "'] IP version.",
		},
		{
			"POST", "listeners",
			listener(
				`"protocol": "TCP", "protocol_port": 1, "insert_headers": {"X-Forwarded-For": "true"}`), 400, "insert-headers is not a valid option for a TCP protocol listener.",
		},
		{
			"POST", "listeners",
			listener(`"protocol": "HTTP", "protocol_port": 1, "insert_headers": {"X": "true"}`),
			400, "dict_keys(['X']) is not a valid option for insert_headers",
		},
		{
			"POST", "listeners",
			listener(
				`"protocol": "UDP", "protocol_port": 1, "insert_headers": {"X-Forwarded-For": "true"}`), 400, "insert-headers is not a valid option for a UDP protocol listener.",
		},
		{
			"POST", "listeners", listener(`"protocol": "TERMINATED_HTTPS", "protocol_port": 1`),
			400,
			"Validation failure: An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.",
		},
		{
			"POST", "listeners",
			listener(`"protocol": "TCP", "protocol_port": 1, "default_tls_container_ref": "` +
				secret + `"`), 400,
			"Validation failure: Certificate container references are not allowed on TCP protocol listeners.",
		},
		{
			"POST", "listeners",
			listener(
				`"protocol": "TERMINATED_HTTPS", "protocol_port": 1, "default_tls_container_ref": "http://k/v1/containers/x"`), 400, "Could not retrieve certificate: ['http://k/v1/containers/x']",
		},
		{
			"POST", "listeners",
			listener(`"protocol": "HTTP", "protocol_port": 1, "default_pool_id": "` + pool + `"`),
			400,
			"Validation failure: The pool protocol 'TCP' is invalid while the listener protocol is 'HTTP'.",
		},
		{"POST", "listeners", listener(`"protocol": "HTTP", "protocol_port": 1, "default_pool_id": "` + nothing + `"`), 404, "Pool " + nothing + " not found."},
		{"PUT", "listeners/" + tcp, `{"listener": {"protocol": "HTTP"}}`, 400, "Unknown attribute for argument listener_.listener: protocol"},
		{
			"PUT", "listeners/" + tcp, `{"listener": {"protocol": "HTTP", "protocol_port": 5}}`,
			400,
			"Unknown attributes for argument listener_.listener: protocol, protocol_port",
		},
		{
			"PUT", "listeners/" + tcp, `{"listener": {"insert_headers": {"X-Forwarded-For": "true"}}}`,
			400, "insert-headers is not a valid option for a TCP protocol listener.",
		},
		{
			"PUT", "listeners/" + udp, `{"listener": {"default_pool_id": "` + pool + `"}}`, 400,
			"Validation failure: The pool protocol 'TCP' is invalid while the listener protocol is 'UDP'.",
		},

		// Pools.
		{"GET", "pools/" + nothing, "", 404, "Pool " + nothing + " not found."},
		{
			"POST", "pools", `{"pool": {"protocol": "TCP", "lb_algorithm": "SOURCE_IP"}}`, 400,
			"Validation failure: Must provide at least one of: loadbalancer_id, listener_id",
		},
		{
			"POST", "pools", `{"pool": {"loadbalancer_id": "` + lb + `", "protocol": "TCP"}}`, 400,
			"Invalid input for field/attribute lb_algorithm. Value: 'None'. Mandatory field missing.",
		},
		{
			"POST", "pools",
			`{"pool": {"listener_id": "` + tcp +
				`", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}}`, 409,
			"This listener already has a default pool",
		},
		{
			"POST", "pools",
			`{"pool": {"listener_id": "` + udp +
				`", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}}`, 400,
			"Validation failure: The pool protocol 'TCP' is invalid while the listener protocol is 'UDP'.",
		},
		{
			"POST", "pools",
			`{"pool": {"loadbalancer_id": "` + lb +
				`", "protocol": "TCP", "lb_algorithm": "SOURCE_IP", "session_persistence": {"type": "APP_COOKIE"}}}`, 400, `Validation failure: Field "cookie_name" must be specified when using the "APP_COOKIE" session persistence type.`,
		},
		{
			"POST", "pools",
			`{"pool": {"loadbalancer_id": "` + lb +
				`", "protocol": "UDP", "lb_algorithm": "SOURCE_IP", "session_persistence": {"type": "HTTP_COOKIE"}}}`, 400, "Validation failure: Session persistence of type HTTP_COOKIE is not supported for UDP/SCTP protocol pools.",
		},
		{"PUT", "pools/" + pool, `{"pool": {"protocol": "HTTP"}}`, 400, "Unknown attribute for argument pool_.pool: protocol"},

		// Members.
		{"GET", "pools/" + nothing + "/members", "", 404, "Pool " + nothing + " not found."},
		{"GET", "pools/" + pool + "/members/" + nothing, "", 404, "Member " + nothing + " not found."},
		{
			"POST", "pools/" + pool + "/members",
			`{"member": {"address": "10.0.0.11", "protocol_port": 1}}`, 409,
			"Another member on this pool is already using ip 10.0.0.11 on protocol_port 1",
		},
		{
			"POST", "pools/" + pool + "/members",
			`{"member": {"address": "10.0.0.12", "protocol_port": 1, "weight": 257}}`, 400,
			"Invalid input for field/attribute weight. Value: '257'. Value should be lower or equal to 256",
		},
		{
			"POST", "pools/" + pool + "/members",
			`{"member": {"address": "10.0.0.12", "protocol_port": 0}}`, 400,
			"Invalid input for field/attribute protocol_port. Value: '0'. Value should be greater or equal to 1",
		},
		{
			"POST", "pools/" + pool + "/members",
			`{"member": {"address": "x", "protocol_port": 1}}`, 400,
			"Invalid input for field/attribute address. Value: 'x'. Value should be IPv4 or IPv6 format",
		},
		{
			"POST", "pools/" + pool + "/members",
			`{"member": {"address": "10.0.0.12", "protocol_port": 1, "subnet_id": "` + nothing +
				`"}}`, 400, "Subnet " + nothing + " not found.",
		},
		{
			"POST", "pools/" + pool + "/members",
			`{"member": {"address": "169.254.169.254", "protocol_port": 1}}`, 400,
			"169.254.169.254 is not a valid option for member address",
		},
		{
			"PUT", "pools/" + pool + "/members",
			`{"members": [{"address": "10.0.0.11", "protocol_port": 1}, {"address": "10.0.0.11", "protocol_port": 1}]}`, 400, "Validation failure: Member must be updated only once in the same request.",
		},
		{
			"PUT", "pools/" + pool + "/members",
			`{"members": [{"address": "10.0.0.12", "protocol_port": 1}, {"address": "10.0.0.12", "protocol_port": 1}]}`, 409, "Another member on this pool is already using ip 10.0.0.12 on protocol_port 1",
		},
		{
			"PUT", "pools/" + pool + "/members",
			`{"members": [{"address": "10.0.0.12", "protocol_port": 1, "subnet_id": "` + nothing +
				`"}]}`, 400, "Subnet " + nothing + " not found.",
		},
		{"PUT", "pools/" + pool + "/members", `{}`, 500, "'UnsetType' object is not iterable"},

		// Health monitors.
		{"GET", "healthmonitors/" + nothing, "", 404, "Health Monitor " + nothing + " not found."},
		{"POST", "healthmonitors", monitor(pool, `"type": "TCP"`), 409, "This pool already has a health monitor"},
		{"POST", "healthmonitors", monitor(nothing, `"type": "TCP"`), 404, "Pool " + nothing + " not found."},
		{
			"POST", "healthmonitors", monitor(udpPool, `"type": "PING"`), 400,
			"Validation failure: The associated pool protocol is UDP, so only a UDP-CONNECT/SCTP/TCP/HTTP health monitor is supported.",
		},
		{
			"POST", "healthmonitors", monitor(pool, `"type": "UDP-CONNECT"`), 400,
			"Validation failure: The UDP-CONNECT type is only supported for pools of type UDP/SCTP.",
		},
		{
			"POST", "healthmonitors",
			`{"healthmonitor": {"pool_id": "` + udpPool +
				`", "delay": 2, "timeout": 1, "max_retries": 1, "type": "UDP-CONNECT"}}`, 400,
			"Validation failure: The request delay value 2 should be larger than 3 for UDP-CONNECT health monitor type.",
		},
		{
			"POST", "healthmonitors",
			`{"healthmonitor": {"pool_id": "` + udpPool +
				`", "delay": 2, "timeout": 3, "max_retries": 11, "type": "TCP"}}`, 400,
			"Invalid input for field/attribute max_retries. Value: '11'. Value should be lower or equal to 10",
		},
		{"POST", "healthmonitors", monitor(udpPool, `"type": "TCP", "url_path": "/"`), 400, "url_path is not a valid option for health monitors of type TCP"},
		{
			"POST", "healthmonitors", monitor(udpPool, `"type": "HTTP", "url_path": "x"`), 400,
			"Invalid input for field/attribute url_path. Value: 'x'. Value must be a valid URL Path string",
		},
		{
			"POST", "healthmonitors", monitor(udpPool, `"type": "HTTP", "domain_name": "a.b"`), 400,
			"Validation failure: 'http_version' must be specified when 'domain_name' is provided.",
		},
		{
			"PUT", "healthmonitors/" + must(s.LoadBalancer(lb))(t).Pools[0].Monitor.ID,
			`{"healthmonitor": {"type": "HTTP"}}`, 400,
			"Unknown attribute for argument health_monitor_.healthmonitor: type",
		},
	} {
		answer := ask(t, s, c.method, octaviaRoot+c.path, c.body)
		var body struct {
			Code  string  `json:"faultcode"`
			Text  string  `json:"faultstring"`
			Debug *string `json:"debuginfo"`
			Early string  `json:"description"`
		}
		answer.into(&body)
		code := "Client"
		switch {
		case c.status >= 500:
			code = "Server"
		case strings.Contains(c.path, "limit=") || strings.Contains(c.path, ":up") ||
			strings.Contains(c.path, nothing+"/members"):
			// WSME does not see these.
			code, body.Text = "", body.Text+body.Early
		}
		text, _, _ := strings.Cut(body.Text, "\nNeutron server returns request_ids: ")
		if answer.status != c.status || text != c.text || body.Code != code {
			t.Errorf("%s %s %s\nanswers %d %s\nwant    %d %s", c.method, c.path, c.body,
				answer.status, answer.body, c.status, c.text)
		}
	}
	if after := states(must(s.LoadBalancer(lb))(t)); after != before ||
		len(s.LoadBalancers()) != 1 {
		t.Errorf("refused requests have changed %s to %s", before, after)
	}
}

func TestTLSListener_WithACertificateOfBarbican_IsAllowed(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{VIPSubnetID: subnet})
	ref := s.AddContainer(Container{Name: "certificate"})
	sni := s.AddSecret(Secret{Name: "pkcs12"})
	answer := ask(t, s, "POST", octaviaRoot+"listeners", `{"listener": {"loadbalancer_id": "`+id+`", "protocol": "TERMINATED_HTTPS", "protocol_port": 443,
		"default_tls_container_ref": "`+ref+`", "sni_container_refs": ["`+sni+`"]}}`)
	if answer.status != http.StatusCreated {
		t.Fatalf("status %d: %s", answer.status, answer.body)
	}
	if l := must(s.LoadBalancer(id))(t).Listeners[0]; l.DefaultTLSContainerRef != ref ||
		l.SNIContainerRefs[0] != sni || len(l.TLSVersions) != 2 {
		t.Errorf("the listener is %+v", l)
	}
}

func TestQuota_IsMet(t *testing.T) {
	for _, c := range []struct{ resource, text string }{
		{QuotaLoadBalancer, "Load Balancer"},
		{QuotaListener, "Listener"},
		{QuotaPool, "Pool"},
		{QuotaMember, "Member"},
		{QuotaHealthMonitor, "Health Monitor"},
	} {
		s := start(t)
		_, subnet := vipSubnet(s, "10.0.0.0/24")
		s.SetLoadBalancerQuota(c.resource, 0)
		ask(t, s, "POST", octaviaRoot+"loadbalancers", `{"loadbalancer": {"vip_subnet_id": "`+subnet+`", "listeners": [{"protocol": "TCP", "protocol_port": 1, "default_pool":
			{"name": "p", "protocol": "TCP", "lb_algorithm": "SOURCE_IP", "members": [{"address": "10.0.0.1", "protocol_port": 1}],
			"healthmonitor": {"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1}}}]}}`).
			is(http.StatusForbidden,
				`{"faultcode": "Client", "faultstring": "Quota has been met for resources: `+c.text+
					`", "debuginfo": null}`)
		s.SetLoadBalancerQuota(c.resource, -1)
	}
}

func TestQuota_OfMembers_CountsWhatABatchDeletes(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(
		LoadBalancer{
			VIPSubnetID: subnet,
			Pools: []Pool{{
				Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN",
				Members: []Member{{Address: "10.0.0.1", ProtocolPort: 1}},
			}},
		})
	s.SetLoadBalancerQuota(QuotaMember, 1)
	path := octaviaRoot + "pools/" + must(s.LoadBalancer(id))(t).Pools[0].ID + "/members"
	body := `{"members": [{"address": "10.0.0.2", "protocol_port": 1}]}`
	if answer := ask(t, s, "PUT", path+"?additive_only=true",
		body); answer.status != http.StatusForbidden {
		t.Errorf("an addition: status %d", answer.status)
	}
	if answer := ask(t, s, "PUT", path, body); answer.status != http.StatusAccepted {
		t.Errorf("an exchange: status %d: %s", answer.status, answer.body)
	}
}
