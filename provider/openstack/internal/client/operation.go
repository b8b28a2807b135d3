package client

import (
	"net/http"
	"strings"
)

// The services, by their types in Keystone's catalog.
const (
	serviceIdentity     = "identity"
	serviceCompute      = "compute"
	serviceNetwork      = "network"
	serviceLoadBalancer = "load-balancer"
	serviceKeyManager   = "key-manager"
)

// operation names a request as <resource>_<verb> with OCCM's names, such as server_list. The set of
// names is finite: an unknown request is <service>_other.
func operation(service, method, path string) string {
	segments := split(path)
	versioned := false
	// A path before the API may look like a version, too.
	for i, segment := range segments {
		if !isVersion(segment) {
			continue
		}
		versioned = true
		if name := known(service, method, segments[i+1:]); name != "" {
			return name
		}
	}
	read := method == http.MethodGet || method == http.MethodHead
	switch {
	case !read:
	case !versioned:
		return "version_list"
	case isVersion(segments[len(segments)-1]):
		return "version_get"
	}
	return other(service)
}

func other(service string) string {
	switch service {
	case serviceIdentity, serviceCompute, serviceNetwork, serviceLoadBalancer, serviceKeyManager:
		return strings.ReplaceAll(service, "-", "_") + "_other"
	}
	return "other"
}

func split(path string) []string {
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" {
			segments = append(segments, segment)
		}
	}
	return segments
}

// isVersion tells whether a path segment is a version such as v3 or v2.0.
func isVersion(segment string) bool {
	number, ok := strings.CutPrefix(segment, "v")
	if !ok || number == "" || number[0] == '.' {
		return false
	}
	return strings.Trim(number, "0123456789.") == "" && strings.Count(number, ".") <= 1
}

// known is "" for unknown requests. segments follow the version.
func known(service, method string, segments []string) string {
	if name := lookUp(service, method, segments); name != "" {
		return name
	}
	// Older addresses of Nova have the project after the version.
	if service == serviceCompute && len(segments) > 1 {
		return lookUp(service, method, segments[1:])
	}
	return ""
}

func lookUp(service, method string, segments []string) string {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if method == http.MethodPatch {
		method = http.MethodPut
	}
	for _, s := range singular(service) {
		if s.method == method && fits(s.path, segments) {
			return s.operation
		}
	}
	for _, r := range resources(service) {
		if name := r.operation(method, segments); name != "" {
			return name
		}
	}
	return ""
}

// fits tells whether segments match a path, in which * is any segment.
func fits(path string, segments []string) bool {
	n := 0
	for want := range strings.SplitSeq(path, "/") {
		if n == len(segments) || (want != "*" && want != segments[n]) {
			return false
		}
		n++
	}
	return n == len(segments)
}

// resource has a collection at a path, and its items below.
type resource struct{ path, name string }

func (r resource) operation(method string, segments []string) string {
	switch {
	case fits(r.path, segments):
		switch method {
		case http.MethodGet:
			return r.name + "_list"
		case http.MethodPost:
			return r.name + "_create"
		}
	case fits(r.path+"/*", segments):
		switch method {
		case http.MethodGet:
			return r.name + "_get"
		case http.MethodPut:
			return r.name + "_update"
		case http.MethodDelete:
			return r.name + "_delete"
		}
	// All resources of Neutron have the same API for tags.
	case fits(r.path+"/*/tags", segments):
		switch method {
		case http.MethodGet:
			return r.name + "_tag_list"
		case http.MethodPut:
			return r.name + "_tag_replace"
		case http.MethodDelete:
			return r.name + "_tag_delete"
		}
	case fits(r.path+"/*/tags/*", segments):
		switch method {
		case http.MethodGet:
			return r.name + "_tag_get"
		case http.MethodPut:
			return r.name + "_tag_add"
		case http.MethodDelete:
			return r.name + "_tag_delete"
		}
	}
	return ""
}

func resources(service string) []resource {
	switch service {
	case serviceCompute:
		return []resource{
			{"servers", "server"},
			{"flavors", "flavor"},
		}
	case serviceNetwork:
		return []resource{
			{"ports", "port"},
			{"networks", "network"},
			{"subnets", "subnet"},
			{"routers", "router"},
			{"floatingips", "floating_ip"},
			{"security-groups", "security_group"},
			{"security-group-rules", "security_group_rule"},
			{"trunks", "trunk"},
			{"extensions", "network_extension"},
		}
	case serviceLoadBalancer:
		return []resource{
			{"lbaas/loadbalancers", "loadbalancer"},
			{"lbaas/listeners", "loadbalancer_listener"},
			{"lbaas/pools", "loadbalancer_pool"},
			{"lbaas/pools/*/members", "loadbalancer_member"},
			{"lbaas/healthmonitors", "loadbalancer_healthmonitor"},
			{"lbaas/l7policies", "loadbalancer_l7policy"},
			{"lbaas/providers", "loadbalancer_provider"},
			{"lbaas/flavors", "loadbalancer_flavor"},
			{"lbaas/availabilityzones", "loadbalancer_availability_zone"},
			{"lbaas/quotas", "loadbalancer_quota"},
		}
	case serviceKeyManager:
		return []resource{
			{"secrets", "secret"},
			{"containers", "secret_container"},
		}
	}
	return nil
}

// single is an operation that does not follow the pattern of resources.
type single struct{ method, path, operation string }

func singular(service string) []single {
	switch service {
	case serviceIdentity:
		return []single{
			{http.MethodPost, "auth/tokens", "token_create"},
			{http.MethodGet, "auth/tokens", "token_get"},
		}
	case serviceCompute:
		return []single{
			{http.MethodGet, "servers/detail", "server_list"},
			{http.MethodGet, "servers/*/os-interface", "server_os_interface_list"},
			{http.MethodGet, "flavors/detail", "flavor_list"},
			{http.MethodGet, "os-availability-zone", "availability_zone_list"},
		}
	case serviceNetwork:
		return []single{
			{http.MethodPut, "routers/*/add_extraroutes", "router_add_extraroutes"},
			{http.MethodPut, "routers/*/remove_extraroutes", "router_remove_extraroutes"},
			{http.MethodGet, "quotas/*/details.json", "quota_get"},
		}
	case serviceLoadBalancer:
		return []single{
			{http.MethodGet, "lbaas/loadbalancers/*/status", "loadbalancer_status_get"},
			{http.MethodGet, "lbaas/loadbalancers/*/statuses", "loadbalancer_status_get"},
			{http.MethodPut, "lbaas/loadbalancers/*/failover", "loadbalancer_failover"},
			{http.MethodPut, "lbaas/pools/*/members", "loadbalancer_members_update"},
			{http.MethodGet, "quotas/*", "loadbalancer_quota_get"},
		}
	case serviceKeyManager:
		return []single{
			{http.MethodGet, "secrets/*/payload", "secret_payload_get"},
		}
	}
	return nil
}
