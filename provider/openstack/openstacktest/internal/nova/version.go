package nova

import (
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listVersions(r *request) (answer, error) {
	old := object{
		"id": "v2.0", "status": "SUPPORTED", "version": "", "min_version": "",
		"updated": "2011-01-21T11:33:21Z",
		"links": []object{{
			"rel":  "self",
			"href": r.nova.URL + r.InterfacePrefix() + "/compute/v2/",
		}},
	}
	return api.OK(object{"versions": []object{old, r.computeVersion()}}), nil
}

func getVersion(r *request) (answer, error) {
	version := r.computeVersion()
	version["links"] = append(version["links"].([]object),
		object{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"})
	version["media-types"] = []object{{
		"base": "application/json",
		"type": "application/vnd.openstack.compute+json;version=2.1",
	}}
	return api.OK(object{"version": version}), nil
}

func (r *request) computeVersion() object {
	return object{
		"id": "v2.1", "status": "CURRENT", "updated": "2013-07-23T11:33:21Z",
		"version":     api.Microversion{Major: 2, Minor: r.nova.options.Minor}.String(),
		"min_version": "2.1",
		"links": []object{{
			"rel":  "self",
			"href": r.nova.URL + r.InterfacePrefix() + root + "/v2.1" + "/",
		}},
	}
}
