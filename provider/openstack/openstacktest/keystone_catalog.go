package openstacktest

import (
	"net/http"
	"slices"
)

// The interfaces of a service, as the catalog and os-endpoint-type name them. The addresses of the internal and the admin
// interface begin with these words; behind all three is the same cloud.
const (
	InterfacePublic   = "public"
	InterfaceInternal = "internal"
	InterfaceAdmin    = "admin"
)

// catalogPaths are the endpoints as a usual cloud has them: Nova's with its version, the others' without.
func (s settings) catalogPaths() []struct{ service, name, path string } {
	network := "/networking"
	if s.versionedNetwork {
		network += "/v2.0"
	}
	return []struct{ service, name, path string }{
		{ServiceIdentity, "keystone", identityPath},
		{ServiceCompute, "nova", "/compute/v2.1"},
		{ServiceNetwork, "neutron", network},
		{ServiceLoadBalancer, "octavia", "/load-balancer"},
		{ServiceKeyManager, "barbican", "/key-manager"},
	}
}

// catalog is the list of services. The endpoints of other regions come first, so that a client that does not look at
// the region is found out: nothing is behind them.
func (s *Cloud) catalog() []object {
	services := []object{}
	for _, entry := range s.settings.catalogPaths() {
		if slices.Contains(s.settings.absent, entry.service) {
			continue
		}
		endpoints := []object{}
		for _, region := range s.settings.otherRegions {
			endpoints = append(endpoints, s.endpoints(region, "/"+region, entry.service, entry.path)...)
		}
		endpoints = append(endpoints, s.endpoints(s.settings.region, "", entry.service, entry.path)...)
		services = append(services, object{
			"type": entry.service, "name": entry.name, "id": "service-" + entry.name, "endpoints": endpoints,
		})
	}
	return services
}

func (s *Cloud) endpoints(region, prefix, service, path string) []object {
	endpoints := []object{}
	for _, kind := range []string{InterfacePublic, InterfaceInternal, InterfaceAdmin} {
		endpoints = append(endpoints, object{
			"id": "endpoint-" + region + "-" + service + "-" + kind, "interface": kind, "region": region, "region_id": region,
			"url": s.URL() + prefix + interfacePrefix(kind) + path,
		})
	}
	return endpoints
}

func interfacePrefix(kind string) string {
	if kind == InterfacePublic {
		return ""
	}
	return "/" + kind
}

func getCatalog(r *request) answer {
	if r.token.project == nil {
		return identityFailure(http.StatusForbidden, "A token without a project has no catalog.")
	}
	return ok(object{"catalog": r.server.catalog(), "links": object{"self": r.server.URL() + r.URL.Path}})
}

// identityVersions is answered with 300, as Keystone does.
func identityVersions(r *request) answer {
	return answer{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []object{r.server.identityVersion()}}}}
}

func identityVersion(r *request) answer { return ok(object{"version": r.server.identityVersion()}) }

func (s *Cloud) identityVersion() object {
	return object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []object{{"rel": "self", "href": s.URL() + identityPath + "/v3/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}
