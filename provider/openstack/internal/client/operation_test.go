package client

import (
	"regexp"
	"strings"
	"testing"
)

func TestOperation_HasOCCMsNames(t *testing.T) {
	const id = "/3f1c9a36-6a0c-4f0e-8d53-6f0f3a1c2b4d"
	for _, c := range []struct{ service, method, path, want string }{
		{serviceCompute, "GET", "/v2.1/servers", "server_list"},
		{serviceCompute, "GET", "/compute/v2.1/servers/detail", "server_list"},
		{serviceCompute, "GET", "/v2.1/servers" + id, "server_get"},
		{
			serviceCompute, "GET", "/v2/0123456789abcdef0123456789abcdef/servers/detail",
			"server_list",
		},
		{serviceCompute, "GET", "/v2.1/servers" + id + "/os-interface", "server_os_interface_list"},
		{serviceCompute, "GET", "/v2.1/flavors" + id, "flavor_get"},
		{serviceCompute, "POST", "/v2.1/servers" + id + "/action", "compute_other"},
		{serviceCompute, "GET", "/compute/v2.1/", "version_get"},
		{serviceCompute, "GET", "/", "version_list"},
		{serviceNetwork, "GET", "/v2.0/ports", "port_list"},
		{serviceNetwork, "PUT", "/v2.0/ports" + id, "port_update"},
		{serviceNetwork, "DELETE", "/v2.0/ports" + id + "/tags/cluster", "port_tag_delete"},
		{serviceNetwork, "PUT", "/v2.0/ports" + id + "/tags/v2.0", "port_tag_add"},
		{serviceNetwork, "GET", "/api/v2/network/v2.0/networks", "network_list"},
		{serviceNetwork, "GET", "/v2.0/subnets" + id, "subnet_get"},
		{serviceNetwork, "GET", "/v2.0/routers" + id, "router_get"},
		{serviceNetwork, "PUT", "/v2.0/routers" + id, "router_update"},
		{
			serviceNetwork, "PUT", "/v2.0/routers" + id + "/add_extraroutes",
			"router_add_extraroutes",
		},
		{
			serviceNetwork, "PUT", "/v2.0/routers" + id + "/remove_extraroutes",
			"router_remove_extraroutes",
		},
		{serviceNetwork, "POST", "/v2.0/floatingips", "floating_ip_create"},
		{serviceNetwork, "POST", "/v2.0/security-groups", "security_group_create"},
		{serviceNetwork, "DELETE", "/v2.0/security-group-rules" + id, "security_group_rule_delete"},
		{serviceNetwork, "GET", "/v2.0/extensions", "network_extension_list"},
		{serviceNetwork, "GET", "/v2.0/trunks", "trunk_list"},
		{serviceNetwork, "GET", "/networking/", "version_list"},
		{serviceNetwork, "DELETE", "/v2.0/agents" + id, "network_other"},
		{
			serviceLoadBalancer, "POST", "/load-balancer/v2.0/lbaas/loadbalancers",
			"loadbalancer_create",
		},
		{serviceLoadBalancer, "GET", "/v2/lbaas/loadbalancers" + id, "loadbalancer_get"},
		{
			serviceLoadBalancer, "GET", "/v2.0/lbaas/loadbalancers" + id + "/status",
			"loadbalancer_status_get",
		},
		{
			serviceLoadBalancer, "PUT", "/v2.0/lbaas/loadbalancers" + id + "/failover",
			"loadbalancer_failover",
		},
		{serviceLoadBalancer, "POST", "/v2.0/lbaas/listeners", "loadbalancer_listener_create"},
		{serviceLoadBalancer, "PUT", "/v2.0/lbaas/pools" + id, "loadbalancer_pool_update"},
		{
			serviceLoadBalancer, "GET", "/v2.0/lbaas/pools" + id + "/members",
			"loadbalancer_member_list",
		},
		{
			serviceLoadBalancer, "PUT", "/v2.0/lbaas/pools" + id + "/members",
			"loadbalancer_members_update",
		},
		{
			serviceLoadBalancer, "POST", "/v2.0/lbaas/pools" + id + "/members",
			"loadbalancer_member_create",
		},
		{
			serviceLoadBalancer, "DELETE", "/v2.0/lbaas/pools" + id + "/members" + id,
			"loadbalancer_member_delete",
		},
		{
			serviceLoadBalancer, "GET", "/v2.0/lbaas/healthmonitors" + id,
			"loadbalancer_healthmonitor_get",
		},
		{serviceLoadBalancer, "GET", "/load-balancer/", "version_list"},
		{serviceKeyManager, "GET", "/v1/secrets" + id, "secret_get"},
		{serviceKeyManager, "GET", "/v1/secrets" + id + "/payload", "secret_payload_get"},
		{serviceKeyManager, "GET", "/v1/containers" + id, "secret_container_get"},
		{serviceKeyManager, "TRACE", "/v1/orders", "key_manager_other"},
		{serviceIdentity, "POST", "/identity/v3/auth/tokens", "token_create"},
		{serviceIdentity, "GET", "/v3/auth/tokens", "token_get"},
		{serviceIdentity, "GET", "/identity/", "version_list"},
		{"volume", "PUT", "/v3/volumes", "other"},
	} {
		if got := operation(c.service, c.method, c.path); got != c.want {
			t.Errorf("%s %s %s is %s, want %s", c.service, c.method, c.path, got, c.want)
		}
	}
}

// FuzzOperation looks for a path that gets into the name: each name is a series of metrics.
func FuzzOperation(f *testing.F) {
	f.Add(serviceNetwork, "GET", "/v2.0/ports/x/tags/y")
	f.Add(serviceCompute, "POST", "/v2.1//servers/detail/")
	f.Add(serviceLoadBalancer, "PUT", "v2.0/lbaas/pools/v2.0/members/v")
	f.Add("evil service", "GET\n", "/v1/%00/../v3")
	names := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, service, method, path string) {
		name := operation(service, method, path)
		if !names.MatchString(name) {
			t.Fatalf("%q is no name", name)
		}
		// The names are made of the tables' words alone.
		if name == "other" || strings.HasPrefix(name, "version_") ||
			strings.HasSuffix(name, "_other") {
			return
		}
		for _, s := range singular(service) {
			if name == s.operation {
				return
			}
		}
		for _, r := range resources(service) {
			if strings.HasPrefix(name, r.name+"_") {
				return
			}
		}
		t.Fatalf("%s %q %q became %q", service, method, path, name)
	})
}
