package keystone

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// catalogPaths are the endpoints of a usual cloud: Nova's with its version, the others without.
func (o Options) catalogPaths() []struct{ service, name, path string } {
	network := "/networking"
	if o.VersionedNetwork {
		network += "/v2.0"
	}
	return []struct{ service, name, path string }{
		{api.ServiceIdentity, "keystone", Path},
		{api.ServiceCompute, "nova", "/compute/v2.1"},
		{api.ServiceNetwork, "neutron", network},
		{api.ServiceLoadBalancer, "octavia", "/load-balancer"},
		{api.ServiceKeyManager, "barbican", "/key-manager"},
	}
}

// catalog is the list of services. The endpoints of other regions come first, so that a client that
// ignores the region fails: no service is behind them.
func (s *Service) catalog() []object {
	services := []object{}
	for _, entry := range s.options.catalogPaths() {
		if slices.Contains(s.options.Absent, entry.service) {
			continue
		}
		endpoints := []object{}
		for _, region := range s.options.OtherRegions {
			endpoints = append(endpoints,
				s.endpoints(region, "/"+region, entry.service, entry.path)...)
		}
		endpoints = append(endpoints,
			s.endpoints(s.options.Region, "", entry.service, entry.path)...)
		services = append(services, object{
			"type": entry.service, "name": entry.name, "id": "service-" + entry.name,
			"endpoints": endpoints,
		})
	}
	return services
}

func (s *Service) endpoints(region, prefix, service, path string) []object {
	endpoints := []object{}
	for _, kind := range api.Interfaces() {
		endpoints = append(endpoints, object{
			"id": "endpoint-" + region + "-" + service + "-" + kind, "interface": kind,
			"region": region, "region_id": region,
			"url": s.URL + prefix + api.InterfacePrefix(kind) + path,
		})
	}
	return endpoints
}

// ServiceOf returns the service with the path; "" for none.
func ServiceOf(path string) string {
	for _, entry := range (Options{}).catalogPaths() {
		if strings.Contains(path, "/"+strings.Split(entry.path, "/")[1]) {
			return entry.service
		}
	}
	return ""
}

func getCatalog(r *request) answer {
	if r.token.project == nil {
		return api.IdentityFailure(http.StatusForbidden,
			"A token without a project has no catalog.")
	}
	return api.OK(
		object{"catalog": r.server.catalog(), "links": object{"self": r.server.URL + r.URL.Path}})
}

// identityVersions answers with 300, like Keystone.
func identityVersions(r *request) answer {
	return answer{
		Status: http.StatusMultipleChoices,
		Body:   object{"versions": object{"values": []object{r.server.identityVersion()}}},
	}
}

func identityVersion(r *request) answer {
	return api.OK(object{"version": r.server.identityVersion()})
}

func (s *Service) identityVersion() object {
	return object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links": []object{{"rel": "self", "href": s.URL + Path + "/v3/"}},
		"media-types": []object{{
			"base": "application/json",
			"type": "application/vnd.openstack.identity-v3+json",
		}},
	}
}
