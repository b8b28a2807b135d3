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

// isVersion reports whether a path segment is a version such as v3 or v2.0.
func isVersion(segment string) bool {
	number, ok := strings.CutPrefix(segment, "v")
	if !ok || number == "" || number[0] == '.' {
		return false
	}
	return strings.Trim(number, "0123456789.") == "" && strings.Count(number, ".") <= 1
}

// known is "" for unknown requests. segments follow the version.
func known(service, method string, segments []string) string {
	switch method {
	case http.MethodHead:
		method = http.MethodGet
	case http.MethodPatch:
		method = http.MethodPut
	}
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
	resources, others := operations(service)
	for _, o := range others {
		if o.method == method && fits(o.path, segments) {
			return o.name
		}
	}
	for path, name := range resources {
		for _, o := range ofResource() {
			if o.method == method && fits(path+o.path, segments) {
				return name + o.name
			}
		}
	}
	return ""
}

// fits reports whether segments match a path, in which * is any segment.
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

type request struct{ method, path, name string }

// ofResource are the requests for the collection of a resource and for its items. All resources of
// Neutron have the same API for tags.
func ofResource() []request {
	return []request{
		{http.MethodGet, "", "_list"},
		{http.MethodPost, "", "_create"},
		{http.MethodGet, "/*", "_get"},
		{http.MethodPut, "/*", "_update"},
		{http.MethodDelete, "/*", "_delete"},
		{http.MethodGet, "/*/tags", "_tag_list"},
		{http.MethodPut, "/*/tags", "_tag_replace"},
		{http.MethodDelete, "/*/tags", "_tag_delete"},
		{http.MethodGet, "/*/tags/*", "_tag_get"},
		{http.MethodPut, "/*/tags/*", "_tag_add"},
		{http.MethodDelete, "/*/tags/*", "_tag_delete"},
	}
}

// operations are the resources of a service, with the paths of their collections, and the requests
// that do not follow the pattern of resources.
func operations(service string) (resources map[string]string, others []request) {
	switch service {
	case serviceIdentity:
		others = []request{
			{http.MethodPost, "auth/tokens", "token_create"},
			{http.MethodGet, "auth/tokens", "token_get"},
		}
	case serviceCompute:
		resources = map[string]string{"servers": "server", "flavors": "flavor"}
		others = []request{
			{http.MethodGet, "servers/detail", "server_list"},
			{http.MethodGet, "servers/*/os-interface", "server_os_interface_list"},
			{http.MethodGet, "flavors/detail", "flavor_list"},
			{http.MethodGet, "os-availability-zone", "availability_zone_list"},
		}
	case serviceNetwork:
		resources = map[string]string{
			"ports":                "port",
			"networks":             "network",
			"subnets":              "subnet",
			"routers":              "router",
			"floatingips":          "floating_ip",
			"security-groups":      "security_group",
			"security-group-rules": "security_group_rule",
			"trunks":               "trunk",
			"extensions":           "network_extension",
		}
		others = []request{
			{http.MethodPut, "routers/*/add_extraroutes", "router_add_extraroutes"},
			{http.MethodPut, "routers/*/remove_extraroutes", "router_remove_extraroutes"},
			{http.MethodGet, "quotas/*/details.json", "quota_get"},
		}
	case serviceLoadBalancer:
		resources = map[string]string{
			"lbaas/loadbalancers":     "loadbalancer",
			"lbaas/listeners":         "loadbalancer_listener",
			"lbaas/pools":             "loadbalancer_pool",
			"lbaas/pools/*/members":   "loadbalancer_member",
			"lbaas/healthmonitors":    "loadbalancer_healthmonitor",
			"lbaas/l7policies":        "loadbalancer_l7policy",
			"lbaas/providers":         "loadbalancer_provider",
			"lbaas/flavors":           "loadbalancer_flavor",
			"lbaas/availabilityzones": "loadbalancer_availability_zone",
			"lbaas/quotas":            "loadbalancer_quota",
		}
		others = []request{
			{http.MethodGet, "lbaas/loadbalancers/*/status", "loadbalancer_status_get"},
			{http.MethodGet, "lbaas/loadbalancers/*/statuses", "loadbalancer_status_get"},
			{http.MethodPut, "lbaas/loadbalancers/*/failover", "loadbalancer_failover"},
			{http.MethodPut, "lbaas/pools/*/members", "loadbalancer_members_update"},
			{http.MethodGet, "quotas/*", "loadbalancer_quota_get"},
		}
	case serviceKeyManager:
		resources = map[string]string{"secrets": "secret", "containers": "secret_container"}
		others = []request{
			{http.MethodGet, "secrets/*/payload", "secret_payload_get"},
		}
	}
	return resources, others
}
