package openstacktest

import (
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func (s *Cloud) setUpComputeVersions(mux *http.ServeMux) {
	s.register(
		mux,
		operation{
			service: ServiceCompute, name: "version_list", pattern: "GET /compute",
			open: true, handle: listComputeVersions,
		},
		operation{
			service: ServiceCompute, name: "version_list", pattern: "GET /compute/{$}",
			open: true, handle: listComputeVersions,
		},
		operation{
			service: ServiceCompute, name: "version_get", pattern: "GET " + computePath,
			open: true, handle: getComputeVersion,
		},
		operation{
			service: ServiceCompute, name: "version_get",
			pattern: "GET " + computePath + "/{$}", open: true, handle: getComputeVersion,
		},
	)
}

func listComputeVersions(r *request) answer {
	old := object{
		"id": "v2.0", "status": "SUPPORTED", "version": "", "min_version": "",
		"updated": "2011-01-21T11:33:21Z",
		"links": []object{{
			"rel":  "self",
			"href": r.server.URL() + r.InterfacePrefix() + "/compute/v2/",
		}},
	}
	return api.OK(object{"versions": []object{old, r.computeVersion()}})
}

func getComputeVersion(r *request) answer {
	version := r.computeVersion()
	version["links"] = append(version["links"].([]object),
		object{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"})
	version["media-types"] = []object{{
		"base": "application/json",
		"type": "application/vnd.openstack.compute+json;version=2.1",
	}}
	return api.OK(object{"version": version})
}

func (r *request) computeVersion() object {
	return object{
		"id": "v2.1", "status": "CURRENT", "updated": "2013-07-23T11:33:21Z",
		"version":     api.Microversion{Major: 2, Minor: r.server.settings.computeMinor}.String(),
		"min_version": "2.1",
		"links": []object{{
			"rel":  "self",
			"href": r.server.URL() + r.InterfacePrefix() + computePath + "/",
		}},
	}
}
