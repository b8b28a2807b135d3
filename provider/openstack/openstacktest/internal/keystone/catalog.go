package keystone

import (
	"net/http"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// catalogPaths are the endpoints of a usual cloud: Nova's with its version, the others without.
func catalogPaths() []struct{ service, name, path string } {
	return []struct{ service, name, path string }{
		{api.ServiceIdentity, "keystone", Path},
		{api.ServiceCompute, "nova", "/compute/v2.1"},
		{api.ServiceNetwork, "neutron", "/networking"},
		{api.ServiceLoadBalancer, "octavia", "/load-balancer"},
		{api.ServiceKeyManager, "barbican", "/key-manager"},
	}
}

// catalog is the list of services.
func (s *Service) catalog() []object {
	services := []object{}
	for _, entry := range catalogPaths() {
		services = append(services, object{
			"type": entry.service, "name": entry.name, "id": "service-" + entry.name,
			"endpoints": s.endpoints(entry.service, entry.path),
		})
	}
	return services
}

func (s *Service) endpoints(service, path string) []object {
	endpoints, region := []object{}, s.options.Region
	for _, kind := range api.Interfaces() {
		endpoints = append(endpoints, object{
			"id": "endpoint-" + region + "-" + service + "-" + kind, "interface": kind,
			"region": region, "region_id": region,
			"url": s.URL + api.InterfacePrefix(kind) + path,
		})
	}
	return endpoints
}

// ServiceOf returns the service with the path; "" for none.
func ServiceOf(path string) string {
	for _, entry := range catalogPaths() {
		if strings.Contains(path, "/"+strings.Split(entry.path, "/")[1]) {
			return entry.service
		}
	}
	return ""
}

func getCatalog(r *request) (answer, error) {
	if r.token.project == nil {
		return answer{}, refuse(http.StatusForbidden,
			"A token without a project has no catalog.")
	}
	return api.OK(object{
		"catalog": r.server.catalog(), "links": object{"self": r.server.URL + r.URL.Path},
	}), nil
}

// identityVersions answers with 300, like Keystone.
func identityVersions(r *request) (answer, error) {
	return answer{
		Status: http.StatusMultipleChoices,
		Body:   object{"versions": object{"values": []object{r.server.identityVersion()}}},
	}, nil
}

func identityVersion(r *request) (answer, error) {
	return api.OK(object{"version": r.server.identityVersion()}), nil
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
