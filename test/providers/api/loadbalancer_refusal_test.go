package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestLoadBalancer_Refusals asks one load balancer for all that it must refuse. None of it has it
// do anything.
func TestLoadBalancer_Refusals(t *testing.T) {
	t.Parallel()
	o := openOctavia(t, project.WithIPv6())
	lb := o.create(web(o.Subnets[4]))
	ids := o.ids(lb)
	was := o.get("loadbalancers/" + lb)["updated_at"]
	for name, refusals := range map[string]func(octavia, string, map[string]string) []refusal{
		"what does not exist": absent, "listeners": badListeners,
		"changes of listeners": badListenerChanges, "pools": badPools,
		"changes of pools": badPoolChanges, "members": badMembers, "monitors": badMonitors,
		"changes of monitors":       badMonitorChanges,
		"changes of load balancers": badLoadBalancerChanges,
		"whole load balancers":      badLoadBalancers,
	} {
		t.Run(name, func(t *testing.T) {
			o := o.in(t)
			o.refuses(refusals(o, lb, ids))
		})
	}
	// A list of members that changes nothing is no refusal, but no work either.
	pool := project.ID(
		o.change(lb, http.MethodPost, "pools",
			project.Object{"pool": project.Object{
				"loadbalancer_id": lb, "protocol": "TCP",
				"lb_algorithm": "ROUND_ROBIN",
			}}).Inner("pool"))
	now := o.get("loadbalancers/" + lb)
	o.must(http.StatusAccepted, http.MethodPut, "pools/"+pool+"/members",
		project.Object{"members": []any{}})
	same(t, "after no members were set in an empty pool",
		o.get("loadbalancers/" + lb)["provisioning_status"], "ACTIVE")
	if now["updated_at"] == nil || was == nil {
		t.Errorf("no time of change: %v", now)
	}
	same(t, "listeners after all", len(o.names("listeners?loadbalancer_id="+lb)), 4)
	same(t, "load balancers after all", o.names("loadbalancers"), []string{"web"})
}

func missing(field string) string {
	return "Invalid input for field/attribute " + field +
		". Value: 'None'. Mandatory field missing."
}

func invalid(field, value, why string) string {
	return "Invalid input for field/attribute " + field + ". Value: '" + value + "'. " + why
}

func unknown(argument, field string) string {
	return "Unknown attribute for argument " + argument + ": " + field
}

func absent(_ octavia, lb string, ids map[string]string) []refusal {
	all := []refusal{
		{"status", http.MethodGet, "loadbalancers/" + unknownID + "/status", nil, 404, "Load Balancer " + unknownID + " not found."},
		// The id of a path is not another's way to write it.
		{"id without hyphens", http.MethodGet, "loadbalancers/" + strings.ReplaceAll(lb, "-", ""), nil, 404, "not found."},
		// On the way to members a pool that does not exist is told in another form.
		{"members of no pool", http.MethodGet, "pools/" + unknownID + "/members", nil, 404, "Pool " + unknownID + " not found."},
		{
			"set members of no pool", http.MethodPut, "pools/" + unknownID + "/members",
			project.Object{"members": []any{}},
			404, "Pool " + unknownID + " not found.",
		},
		{
			"make a member of no pool", http.MethodPost, "pools/" + unknownID + "/members",
			project.Object{"member": project.Object{"address": "10.0.1.9", "protocol_port": 1}},
			404, "Pool " + unknownID + " not found.",
		},
		{"delete a member of no pool", http.MethodDelete, "pools/" + unknownID + "/members/" + unknownID, nil, 404, "Pool " + unknownID + " not found."},
		{"no member", http.MethodGet, "pools/" + ids["tcp-pool"] + "/members/" + unknownID, nil, 404, "Member " + unknownID + " not found."},
		{
			"change no member", http.MethodPut,
			"pools/" + ids["tcp-pool"] + "/members/" + unknownID,
			project.Object{"member": project.Object{"weight": 2}},
			404,
			"Member " + unknownID + " not found.",
		},
		{"delete no member", http.MethodDelete, "pools/" + ids["tcp-pool"] + "/members/" + unknownID, nil, 404, "Member " + unknownID + " not found."},
	}
	for path, kind := range map[string][2]string{
		"loadbalancers": {"loadbalancer", "Load Balancer"}, "listeners": {"listener", "Listener"},
		"pools": {"pool", "Pool"}, "healthmonitors": {"healthmonitor", "Health Monitor"},
	} {
		text := kind[1] + " " + unknownID + " not found."
		all = append(all,
			refusal{"get", http.MethodGet, path + "/" + unknownID, nil, 404, text},
			refusal{
				"change", http.MethodPut, path + "/" + unknownID,
				project.Object{kind[0]: project.Object{"name": "x"}},
				404, text,
			},
			refusal{"delete", http.MethodDelete, path + "/" + unknownID, nil, 404, text},
		)
	}
	return all
}

// of is a request to make something, of a base with changes.
func of(
	path, kind string, base project.Object,
) func(name string, status int, text string, changes project.Object) refusal {
	return func(name string, status int, text string, changes project.Object) refusal {
		return refusal{
			name, http.MethodPost, path,
			project.Object{kind: with(base, changes)},
			status, text,
		}
	}
}

// to is a request to change something.
func to(path, kind string) func(status int, text string, changes project.Object) refusal {
	return func(status int, text string, changes project.Object) refusal {
		return refusal{"change", http.MethodPut, path, project.Object{kind: changes}, status, text}
	}
}

const noCertificate = "http://key-manager/v1/containers/" + unknownID

func badListeners(_ octavia, lb string, ids map[string]string) []refusal {
	listener := of("listeners", "listener",
		project.Object{"name": "x", "loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 81})
	type o = project.Object
	return []refusal{
		listener("port in use", 409,
			"Another Listener on this Load Balancer is already using protocol TCP and protocol_port 80", o{"protocol_port": 80}),
		listener("port in use by another protocol", 409,
			"is already using protocol TCP and protocol_port 80",
			o{"protocol_port": 80, "protocol": "HTTP"}),
		listener("load balancer that is not there", 404, "Load Balancer "+unknownID+" not found.",
			o{"loadbalancer_id": unknownID}),
		listener("no protocol", 400, missing("protocol"), o{"protocol": dropped}),
		listener("unknown protocol", 400,
			"Invalid input for field/attribute protocol. Value: 'XYZ'. Value should be one of: ",
			o{"protocol": "XYZ"}),
		listener("port 0", 400,
			invalid("protocol_port", "0", "Value should be greater or equal to 1"),
			o{"protocol_port": 0}),
		listener("limit", 400,
			invalid("connection_limit", "-2", "Value should be greater or equal to -1"),
			o{"connection_limit": -2}),
		listener("no CIDR", 400,
			invalid("allowed_cidrs", "['abc']", "Value should be IPv4 or IPv6 CIDR format"),
			o{"allowed_cidrs": []string{"abc"}}),
		// Releases since 2.27 name all VIPs.
		listener("CIDR of the other family", 400,
			"Validation failure: CIDR fd00::/64 IP version incompatible with ",
			o{"allowed_cidrs": []string{"fd00::/64"}}),
		listener("unknown attribute", 400, unknown("listener_.listener", "foo"), o{"foo": 1}),
		listener("long name", 400, "Value should have a maximum character requirement of 255",
			o{"name": strings.Repeat("x", 256)}),
		listener("pool that is not there", 404, "Pool "+unknownID+" not found.",
			o{"default_pool_id": unknownID}),
		listener("pool of another protocol", 400,
			"Validation failure: The pool protocol 'UDP' is invalid while the listener protocol is 'TCP'.",
			o{"default_pool_id": ids["udp-pool"]}),
		listener("headers of TCP", 400,
			"insert-headers is not a valid option for a TCP protocol listener.",
			o{"insert_headers": o{"X-Forwarded-For": "true"}}),
		listener("unknown header", 400, " is not a valid option for insert_headers",
			o{"protocol": "HTTP", "insert_headers": o{"X-Foo": "true"}}),
		listener("TLS without a certificate", 400,
			"Validation failure: An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.", o{"protocol": "TERMINATED_HTTPS"}),
		listener("TLS with an unknown container", 400,
			"Could not retrieve certificate: ['"+noCertificate+"']",
			o{"protocol": "TERMINATED_HTTPS", "default_tls_container_ref": noCertificate}),
		{"no JSON", http.MethodPost, "listeners", "{", 400, "Request is not in valid JSON format"},
		{
			"other object", http.MethodPost, "listeners",
			o{
				"listener": o{"loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 81},
				"foo":      o{},
			},
			400, unknown("listener_", "foo"),
		},
	}
}

func badListenerChanges(_ octavia, _ string, ids map[string]string) []refusal {
	type o = project.Object
	tcp, udp, http := to("listeners/"+ids["tcp"], "listener"),
		to("listeners/"+ids["udp"], "listener"), to("listeners/"+ids["http"], "listener")
	all := []refusal{
		tcp(404, "Pool "+unknownID+" not found.", o{"default_pool_id": unknownID}),
		tcp(400,
			"Validation failure: The pool protocol 'UDP' is invalid while the listener protocol is 'TCP'.",
			o{"default_pool_id": ids["udp-pool"]}),
		tcp(400, "insert-headers is not a valid option for a TCP protocol listener.",
			o{"insert_headers": o{"X-Forwarded-For": "true"}}),
		udp(400,
			"Validation failure: UDP protocol listener does not support TLS or header insertion.",
			o{"insert_headers": o{"X-Forwarded-For": "true"}}),
		udp(400,
			"Validation failure: UDP protocol listener does not support TLS or header insertion.",
			o{"default_tls_container_ref": noCertificate}),
		http(400, "['X-Foo'] is not a valid option for insert_headers",
			o{"insert_headers": o{"X-Foo": "true"}}),
		tcp(400, "Validation failure: CIDR fd00::/64 IP version incompatible with ",
			o{"allowed_cidrs": []string{"fd00::/64"}}),
	}
	// A listener's protocol and port are constant.
	for _, attribute := range []string{
		"protocol", "protocol_port", "loadbalancer_id", "project_id",
		"id", "default_pool", "provisioning_status", "foo",
	} {
		all = append(all, tcp(400, unknown("listener_.listener", attribute), o{attribute: "x"}))
	}
	return all
}

func badPools(_ octavia, lb string, ids map[string]string) []refusal {
	type o = project.Object
	pool := of("pools", "pool",
		o{"name": "x", "loadbalancer_id": lb, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"})
	persistence := func(name, protocol, text string, value o) refusal {
		return pool(name, 400, text, o{"protocol": protocol, "session_persistence": value})
	}
	return []refusal{
		pool("no parent", 400,
			"Validation failure: Must provide at least one of: loadbalancer_id, listener_id",
			o{"loadbalancer_id": dropped}),
		pool("listener has a pool", 409, "This listener already has a default pool",
			o{"loadbalancer_id": dropped, "listener_id": ids["tcp"]}),
		pool("listener of another protocol", 400,
			"Validation failure: The pool protocol 'UDP' is invalid while the listener protocol is 'TCP'.",
			o{"loadbalancer_id": dropped, "listener_id": ids["bare"], "protocol": "UDP"}),
		pool("unknown algorithm", 400,
			"Invalid input for field/attribute lb_algorithm. Value: 'FOO'. Value should be one of: ", o{"lb_algorithm": "FOO"}),
		pool("algorithm of OVN", 501,
			"Provider 'amphora' does not support a requested option: Amphora provider does not support SOURCE_IP_PORT algorithm.", o{"lb_algorithm": "SOURCE_IP_PORT"}),
		pool("unknown attribute", 400, unknown("pool_.pool", "foo"), o{"foo": 1}),
		persistence("timeout of TCP", "TCP",
			"persistence_timeout and persistence_granularity is only for UDP and SCTP protocol pools.", o{"type": "SOURCE_IP", "persistence_timeout": 5}),
	}
}

func badPoolChanges(_ octavia, _ string, ids map[string]string) []refusal {
	type o = project.Object
	tcp, udp, bare := to("pools/"+ids["tcp-pool"], "pool"), to("pools/"+ids["udp-pool"], "pool"),
		to("pools/"+ids["http-pool"], "pool")
	all := []refusal{
		tcp(400,
			"Invalid input for field/attribute lb_algorithm. Value: 'FOO'. Value should be one of: ", o{"lb_algorithm": "FOO"}),
		tcp(400,
			`Field "cookie_name" can only be specified with session persistence of type "APP_COOKIE".`, o{"session_persistence": o{"cookie_name": "c"}}),
		tcp(400, "persistence_timeout and persistence_granularity is only for UDP protocol pools.",
			o{"session_persistence": o{"persistence_timeout": 5}}),
		udp(400,
			"Session persistence of type HTTP_COOKIE is not supported for UDP/SCTP protocol pools.",
			o{"session_persistence": o{"type": "HTTP_COOKIE"}}),
		bare(400, "Validation failure: Invalid session_persistence provided.",
			o{"session_persistence": o{"cookie_name": "c"}}),
	}
	for _, attribute := range []string{
		"protocol", "loadbalancer_id", "listener_id", "members",
		"healthmonitor", "healthmonitor_id", "project_id", "foo",
	} {
		all = append(all, tcp(400, unknown("pool_.pool", attribute), o{attribute: "x"}))
	}
	return all
}

// badMembers are refused alone, and in a list of all.
func badMembers(x octavia, _ string, ids map[string]string) (all []refusal) {
	type o = project.Object
	members := "pools/" + ids["tcp-pool"] + "/members"
	for _, c := range []struct {
		text    string
		changes o
	}{
		{missing("address"), o{"address": dropped}},
		{invalid("address", "10.0.1", "Value should be IPv4 or IPv6 format"), o{"address": "10.0.1"}},
		{"169.254.169.254 is not a valid option for member address", o{"address": "169.254.169.254"}},
		{invalid("weight", "257", "Value should be lower or equal to 256"), o{"weight": 257}},
		{"Subnet " + unknownID + " not found.", o{"subnet_id": unknownID}},
	} {
		member := with(o{"name": "x", "address": "10.0.1.9", "protocol_port": 81}, c.changes)
		all = append(
			all,
			refusal{"make a member", http.MethodPost, members, o{"member": member}, 400, c.text},
			refusal{"set members", http.MethodPut, members, o{"members": []o{member}}, 400, c.text},
		)
	}
	taken := o{"address": "10.0.1.1", "protocol_port": 30080}
	one := named(objects(x.must(http.StatusOK, http.MethodGet, members, nil).Object()["members"]),
		"one")
	change := to(members+"/"+project.ID(one), "member")
	all = append(
		all,
		refusal{
			"unknown attribute", http.MethodPost, members,
			o{"member": with(taken, o{"foo": 1})},
			400, unknown("member_.member", "foo"),
		},
		refusal{
			"unknown attribute", http.MethodPut, members,
			o{"members": []o{with(taken, o{"foo": 1})}},
			400, unknown("members_.members", "foo"),
		},
		refusal{
			"same address and port", http.MethodPost, members,
			o{"member": taken},
			409,
			"Another member on this pool is already using ip 10.0.1.1 on protocol_port 30080",
		},
		// The subnet makes no other member.
		refusal{
			"in another subnet", http.MethodPost, members,
			o{"member": with(taken, o{"subnet_id": x.Subnets[6]})},
			409,
			"Another member on this pool is already using ip 10.0.1.1 on protocol_port 30080",
		},
		refusal{
			"twice in a list", http.MethodPut, members + "?additive_only=true",
			o{"members": []o{
				{"address": "10.0.1.8", "protocol_port": 1},
				{"address": "10.0.1.8", "protocol_port": 1},
			}},
			409,
			"Another member on this pool is already using ip 10.0.1.8 on protocol_port 1",
		},
		change(400, invalid("weight", "300", "Value should be lower or equal to 256"),
			o{"weight": 300}),
	)
	for _, attribute := range []string{
		"address", "protocol_port", "subnet_id", "project_id",
		"foo",
	} {
		all = append(all, change(400, unknown("member_.member", attribute), o{attribute: "x"}))
	}
	return all
}

func badMonitors(_ octavia, _ string, ids map[string]string) []refusal {
	type o = project.Object
	monitor := of("healthmonitors", "healthmonitor",
		o{
			"name": "x", "pool_id": ids["tcp-pool"], "type": "TCP", "delay": 5, "timeout": 4,
			"max_retries": 2,
		})
	notOf := func(kind string) string {
		return "Validation failure: The " + kind +
			" type is only supported for pools of type UDP/SCTP."
	}
	onlyUDP := "so only a UDP-CONNECT/SCTP/TCP/HTTP health monitor is supported."
	return []refusal{
		monitor("second", 409, "This pool already has a health monitor", o{}),
		monitor("no such pool", 404, "Pool "+unknownID+" not found.", o{"pool_id": unknownID}),
		monitor("unknown type", 400,
			"Invalid input for field/attribute type. Value: 'FOO'. Value should be one of: ",
			o{"type": "FOO"}),
		monitor("no delay", 400, missing("delay"), o{"delay": dropped}),
		monitor("retries", 400,
			invalid("max_retries", "0", "Value should be greater or equal to 1"),
			o{"max_retries": 0}),
		monitor("path of TCP", 400,
			"url_path is not a valid option for health monitors of type TCP", o{"url_path": "/"}),
		monitor("path", 400, invalid("url_path", "abc", "Value must be a valid URL Path string"),
			o{"type": "HTTP", "url_path": "abc"}),
		monitor("codes", 400,
			"Invalid input for field/attribute expected_codes. Value: 'abc'. Value should match the pattern ", o{"type": "HTTP", "expected_codes": "abc"}),
		monitor("UDP-CONNECT of TCP", 400, notOf("UDP-CONNECT"), o{"type": "UDP-CONNECT"}),
		monitor("PING of UDP", 400, onlyUDP, o{"type": "PING", "pool_id": ids["udp-pool"]}),
		monitor("short delay of UDP-CONNECT", 400,
			"Validation failure: The request delay value 2 should be larger than 3 for UDP-CONNECT health monitor type.",
			o{"type": "UDP-CONNECT", "pool_id": ids["udp-pool"], "delay": 2, "timeout": 1}),
		monitor("unknown attribute", 400, unknown("health_monitor_.healthmonitor", "foo"),
			o{"foo": 1}),
	}
}

func badMonitorChanges(_ octavia, _ string, ids map[string]string) []refusal {
	type o = project.Object
	tcp, udp, http := to("healthmonitors/"+ids["monitor tcp-pool"], "healthmonitor"),
		to("healthmonitors/"+ids["monitor udp-pool"], "healthmonitor"),
		to("healthmonitors/"+ids["monitor http-pool"], "healthmonitor")
	all := []refusal{
		tcp(400, "None is not a valid option for delay", o{"delay": nil}),
		tcp(400, "None is not a valid option for max_retries", o{"max_retries": nil}),
		// Octavia should not report this.
		tcp(400, "http_method is not a valid option for health monitors of type TCP",
			o{"http_method": nil}),
		tcp(400, "url_path is not a valid option for health monitors of type TCP",
			o{"url_path": "/"}),
		tcp(400, "expected_codes is not a valid option for health monitors of type TCP",
			o{"expected_codes": "200"}),
		udp(400,
			"Validation failure: The request delay value 2 should be larger than 3 for UDP-CONNECT health monitor type.",
			o{"delay": 2}),
		http(400,
			"Validation failure: 'http_version' must be specified when 'domain_name' is provided.",
			o{"domain_name": "a.example"}),
	}
	for _, attribute := range []string{"type", "pool_id", "pools", "project_id", "foo"} {
		all = append(all,
			tcp(400, unknown("health_monitor_.healthmonitor", attribute), o{attribute: "x"}))
	}
	return all
}

func badLoadBalancerChanges(_ octavia, lb string, _ map[string]string) []refusal {
	type o = project.Object
	change := to("loadbalancers/"+lb, "loadbalancer")
	all := []refusal{
		change(400, "Value should have a maximum character requirement of 255",
			o{"name": strings.Repeat("x", 256)}),
		change(400, "Value should have a maximum character requirement of 255",
			o{"description": strings.Repeat("x", 256)}),
		change(400, "Value should have a maximum character requirement of 255",
			o{"tags": []string{strings.Repeat("x", 256)}}),
	}
	for _, attribute := range []string{
		"vip_address", "vip_subnet_id", "vip_port_id", "vip_network_id", "additional_vips",
		"provider", "flavor_id", "availability_zone", "listeners", "pools", "project_id", "foo",
	} {
		all = append(all,
			change(400, unknown("load_balancer.loadbalancer", attribute), o{attribute: "x"}))
	}
	return all
}

// badLoadBalancers are creations: of what is in them nothing remains.
func badLoadBalancers(x octavia, _ string, _ map[string]string) []refusal {
	type o = project.Object
	all := of("loadbalancers", "loadbalancer", o{"name": "x", "vip_subnet_id": x.Subnets[4]})
	pool := func(changes o) o {
		return with(o{"name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}, changes)
	}
	listener := func(changes o) o { return with(o{"protocol": "TCP", "protocol_port": 1}, changes) }
	below := func(name string, status int, text string, listeners ...o) refusal {
		return all(name, status, text, o{"listeners": listeners})
	}
	within := func(name string, status int, text string, changes o) refusal {
		return below(name, status, text, listener(o{"default_pool": pool(changes)}))
	}
	monitor := o{"type": "TCP", "delay": 5, "timeout": 4, "max_retries": 2}
	const path = "load_balancer.loadbalancer"
	return []refusal{
		all("unknown attribute", 400, unknown(path, "foo"), o{"foo": 1}),
		all("unknown provider", 400, "Provider 'foo' is not enabled.", o{"provider": "foo"}),
		all("no flavor", 400, "Validation failure: Invalid flavor_id.", o{"flavor_id": unknownID}),
		all("no zone", 400, "Validation failure: Invalid availability zone.",
			o{"availability_zone": "foo"}),
		all("another project", 403, "Policy does not allow this request to be performed.",
			o{"project_id": strings.ReplaceAll(unknownID, "-", "")}),
		below("pool without a name", 400,
			"Validation failure: Pools must be named when creating a fully populated loadbalancer.",
			listener(o{"default_pool": pool(o{"name": dropped})})),
		below("pool that is only named", 400,
			"Validation failure: Pool 'none' was referenced but no full definition was found.",
			listener(o{"default_pool": o{"name": "none"}})),
		below("pools of one name", 400,
			"Validation failure: Pool names must be unique when creating a fully populated loadbalancer.",
			listener(o{"default_pool": pool(nil)}),
			listener(o{"protocol_port": 2, "default_pool": pool(nil)})),
		within("half a pool", 400,
			"Validation failure: Pool definition for 'p' missing required attribute: lb_algorithm",
			o{"lb_algorithm": dropped}),
		below("one port twice", 409,
			"Another Listener on this Load Balancer is already using protocol TCP and protocol_port 1", listener(nil), listener(o{"protocol": "HTTP"})),
		below("listener with its load balancer", 400, unknown(path+".listeners", "loadbalancer_id"),
			listener(o{"loadbalancer_id": unknownID})),
		within("member twice", 409,
			"Another member on this pool is already using ip 10.0.0.1 on protocol_port 1",
			o{"members": []o{
				{"address": "10.0.0.1", "protocol_port": 1},
				{"address": "10.0.0.1", "protocol_port": 1},
			}}),
		within("unknown attribute of a member", 400,
			unknown(path+".listeners.default_pool.members", "foo"),
			o{"members": []o{{"address": "10.0.0.1", "protocol_port": 1, "foo": 1}}}),
		below("short delay of UDP-CONNECT", 400,
			"Validation failure: The request delay value 2 should be larger than 3 for UDP-CONNECT health monitor type.",
			listener(
				o{
					"protocol": "UDP",
					"default_pool": pool(o{
						"protocol":      "UDP",
						"healthmonitor": with(monitor, o{"type": "UDP-CONNECT", "delay": 2}),
					}),
				})),
	}
}
