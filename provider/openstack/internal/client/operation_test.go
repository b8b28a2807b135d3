package client

import (
	"regexp"
	"strings"
	"testing"
)

func TestOperation_HasOCCMsNames(t *testing.T) {
	// Service, method, path and name.
	const cases = `
compute GET /v2.1/servers server_list
compute GET /compute/v2.1/servers/detail server_list
compute GET /v2.1/servers/ID server_get
compute GET /v2/0123456789abcdef0123456789abcdef/servers/detail server_list
compute GET /v2.1/servers/ID/os-interface server_os_interface_list
compute GET /v2.1/flavors/ID flavor_get
compute POST /v2.1/servers/ID/action compute_other
compute GET /compute/v2.1/ version_get
compute GET / version_list
network GET /v2.0/ports port_list
network PUT /v2.0/ports/ID port_update
network DELETE /v2.0/ports/ID/tags/cluster port_tag_delete
network PUT /v2.0/ports/ID/tags/v2.0 port_tag_add
network GET /api/v2/network/v2.0/networks network_list
network GET /v2.0/subnets/ID subnet_get
network GET /v2.0/routers/ID router_get
network PUT /v2.0/routers/ID router_update
network PUT /v2.0/routers/ID/add_extraroutes router_add_extraroutes
network PUT /v2.0/routers/ID/remove_extraroutes router_remove_extraroutes
network POST /v2.0/floatingips floating_ip_create
network POST /v2.0/security-groups security_group_create
network DELETE /v2.0/security-group-rules/ID security_group_rule_delete
network GET /v2.0/extensions network_extension_list
network GET /v2.0/trunks trunk_list
network GET /networking/ version_list
network DELETE /v2.0/agents/ID network_other
load-balancer POST /load-balancer/v2.0/lbaas/loadbalancers loadbalancer_create
load-balancer GET /v2/lbaas/loadbalancers/ID loadbalancer_get
load-balancer GET /v2.0/lbaas/loadbalancers/ID/status loadbalancer_status_get
load-balancer PUT /v2.0/lbaas/loadbalancers/ID/failover loadbalancer_failover
load-balancer POST /v2.0/lbaas/listeners loadbalancer_listener_create
load-balancer PUT /v2.0/lbaas/pools/ID loadbalancer_pool_update
load-balancer GET /v2.0/lbaas/pools/ID/members loadbalancer_member_list
load-balancer PUT /v2.0/lbaas/pools/ID/members loadbalancer_members_update
load-balancer POST /v2.0/lbaas/pools/ID/members loadbalancer_member_create
load-balancer DELETE /v2.0/lbaas/pools/ID/members/ID loadbalancer_member_delete
load-balancer GET /v2.0/lbaas/healthmonitors/ID loadbalancer_healthmonitor_get
load-balancer GET /load-balancer/ version_list
key-manager GET /v1/secrets/ID secret_get
key-manager GET /v1/secrets/ID/payload secret_payload_get
key-manager GET /v1/containers/ID secret_container_get
key-manager TRACE /v1/orders key_manager_other
identity POST /identity/v3/auth/tokens token_create
identity GET /v3/auth/tokens token_get
identity GET /identity/ version_list
volume PUT /v3/volumes other`
	for line := range strings.Lines(strings.TrimSpace(cases)) {
		c := strings.Fields(line)
		path := strings.ReplaceAll(c[2], "ID", "3f1c9a36-6a0c-4f0e-8d53-6f0f3a1c2b4d")
		if got := operation(c[0], c[1], path); got != c[3] {
			t.Errorf("%s is %s", line, got)
		}
	}
}

// FuzzOperation looks for a path that becomes a part of the name: each name is a series of metrics.
func FuzzOperation(f *testing.F) {
	f.Add(serviceNetwork, "GET", "/v2.0/ports/x/tags/y")
	f.Add(serviceCompute, "POST", "/v2.1//servers/detail/")
	f.Add(serviceLoadBalancer, "PUT", "v2.0/lbaas/pools/v2.0/members/v")
	f.Add("evil service", "GET\n", "/v1/%00/../v3")
	names := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, service, method, path string) {
		name := operation(service, method, path)
		if !names.MatchString(name) {
			t.Fatalf("%q is not a valid name", name)
		}
		// The names contain only the words of the tables.
		if name == "other" || strings.HasPrefix(name, "version_") ||
			strings.HasSuffix(name, "_other") {
			return
		}
		resources, others := operations(service)
		for _, o := range others {
			if name == o.name {
				return
			}
		}
		for _, resource := range resources {
			if strings.HasPrefix(name, resource+"_") {
				return
			}
		}
		t.Fatalf("%s %q %q has the name %q", service, method, path, name)
	})
}
