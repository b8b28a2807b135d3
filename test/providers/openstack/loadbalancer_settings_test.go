package openstack_test

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/test/internal/project"
)

// Octavia has the Service's settings, also after the Service had others.
func TestLoadBalancer_Created_HasWhatTheServiceAsksFor(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	s.create("web", internal())
	s.serve("web")
	id := s.id("web")
	// These are defaults.
	listener := project.Object{
		"protocol": "TCP", "connection_limit": -1, "allowed_cidrs": []string{"0.0.0.0/0"},
		"insert_headers":      project.Object{},
		"timeout_client_data": 50000, "timeout_member_connect": 5000, "timeout_member_data": 50000,
		"timeout_tcp_inspect": 0,
	}
	pool := project.Object{
		"protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
		"session_persistence": nil,
	}
	member := project.Object{"weight": 1, "monitor_port": nil}
	for _, row := range []struct {
		says                            string
		edit                            edit
		listener, pool, monitor, member project.Object
	}{
		{
			says: "limits and source ranges",
			edit: all(annotated("connection-limit", "77", "timeout-client-data", "1001",
				"timeout-member-connect", "1002", "timeout-member-data", "1003",
				"timeout-tcp-inspect", "1004", "lb-method", "LEAST_CONNECTIONS"),
				func(service *v1.Service) {
					service.Spec.LoadBalancerSourceRanges = []string{
						"198.51.100.0/24",
						"10.1.2.3/16",
					}
				}),
			listener: project.Object{
				"connection_limit": 77, "timeout_client_data": 1001, "timeout_member_connect": 1002,
				"timeout_member_data": 1003,
				"timeout_tcp_inspect": 1004,
				"allowed_cidrs":       []string{"10.1.0.0/16", "198.51.100.0/24"},
			},
			pool: project.Object{"lb_algorithm": "LEAST_CONNECTIONS"},
		},
		{
			says: "affinity, and source ranges by annotation",
			edit: all(annotated("lb-method", "SOURCE_IP", v1.AnnotationLoadBalancerSourceRangesKey,
				"203.0.113.0/25"), func(service *v1.Service) {
				service.Spec.SessionAffinity = v1.ServiceAffinityClientIP
			}),
			listener: project.Object{"allowed_cidrs": []string{"203.0.113.0/25"}},
			pool: project.Object{"lb_algorithm": "SOURCE_IP", "session_persistence": project.Object{
				"type": "SOURCE_IP", "cookie_name": nil, "persistence_timeout": nil,
				"persistence_granularity": nil,
			}},
		},
		{
			says: "a monitor",
			edit: annotated("enable-health-monitor", "true", "health-monitor-delay", "7",
				"health-monitor-timeout", "6", "health-monitor-max-retries", "2",
				"health-monitor-max-retries-down", "4"),
			monitor: project.Object{
				"type": "TCP", "delay": 7, "timeout": 6, "max_retries": 2,
				"max_retries_down": 4, "http_method": nil, "url_path": nil, "expected_codes": nil,
			},
		},
		{
			says: "another monitor",
			edit: annotated("enable-health-monitor", "true"),
			monitor: project.Object{
				"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1,
				"max_retries_down": 3,
			},
		},
		{
			says: "local traffic only",
			edit: all(annotated("enable-health-monitor", "true"), local(32000)),
			monitor: project.Object{
				"type": "HTTP", "delay": 5, "http_method": "GET",
				"url_path": "/healthz", "expected_codes": "200",
			},
			member: project.Object{"monitor_port": 32000},
		},
		{
			says:    "local traffic, checked at another port",
			edit:    all(annotated("enable-health-monitor", "true"), local(32001)),
			monitor: project.Object{"type": "HTTP"},
			member:  project.Object{"monitor_port": 32001},
		},
		{says: "the PROXY protocol, version 2", edit: annotated("proxy-protocol", "v2"), pool: project.Object{"protocol": "PROXYV2"}},
		{
			says: "headers",
			edit: annotated("x-forwarded-for", "true", "x-forwarded-port", "true",
				"x-forwarded-proto", "true"),
			listener: project.Object{
				"protocol": "HTTP",
				"insert_headers": project.Object{
					"X-Forwarded-For":  "true",
					"X-Forwarded-Port": "true", "X-Forwarded-Proto": "true",
				},
			},
			pool: project.Object{"protocol": "HTTP"},
		},
		{
			says: "another header, and the PROXY protocol",
			edit: annotated("x-forwarded-port", "true", "proxy-protocol", "true"),
			listener: project.Object{
				"protocol":       "HTTP",
				"insert_headers": project.Object{"X-Forwarded-Port": "true"},
			},
			pool: project.Object{"protocol": "PROXY"},
		},
		{says: "nothing", edit: all()},
	} {
		s.change("web", plain, internal(), row.edit)
		s.serve("web")
		s.quiet("web")
		v := s.view("web")
		p := v.ports["80/TCP"]
		s.wantAttributes(row.says+": listener", p.listener, with(listener, row.listener))
		s.wantAttributes(row.says+": pool", p.pool, with(pool, row.pool))
		s.wantAttributes(row.says+": member", p.members["node-1"], with(member, row.member))
		s.wantAttributes(row.says+": monitor", p.monitor, row.monitor)
		if row.monitor == nil && p.monitor != nil {
			t.Errorf("%s: there is the monitor %v", row.says, p.monitor)
		}
		if len(v.ports) != 1 || len(v.loose) > 0 || s.id("web") != id {
			t.Errorf(
				"%s: load balancer %s has the ports %q and the loose pools %v, want one port in %s",
				row.says, s.id("web"), v.portNames(), v.loose, id)
		}
		s.wantMembers("web", v, s.servers...)
	}
	s.quietAfterRestart()
	s.end()
}

// plain takes off all that a Service says but its ports, and what the provider has written.
func plain(service *v1.Service) {
	maps.DeleteFunc(service.Annotations, func(name, _ string) bool {
		return name != annotationID && name != annotationAddress
	})
	service.Spec = v1.ServiceSpec{
		Type: service.Spec.Type, IPFamilies: service.Spec.IPFamilies,
		Ports: service.Spec.Ports,
	}
}

// all is edits, one after the other.
func all(edits ...edit) edit {
	return func(service *v1.Service) {
		for _, edit := range edits {
			edit(service)
		}
	}
}

// with is attributes, of which some are others.
func with(of, others project.Object) project.Object {
	result := maps.Clone(of)
	maps.Copy(result, others)
	return result
}
