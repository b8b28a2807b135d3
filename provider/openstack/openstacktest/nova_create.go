package openstacktest

import (
	"encoding/json"
	"net/http"
)

// serverBody is the body of POST /servers, as far as it is looked at.
type serverBody struct {
	Server struct {
		Name             string            `json:"name"`
		FlavorRef        string            `json:"flavorRef"`
		AvailabilityZone string            `json:"availability_zone"`
		Metadata         map[string]string `json:"metadata"`
		Tags             []string          `json:"tags"`
		AccessIPv4       string            `json:"accessIPv4"`
		AccessIPv6       string            `json:"accessIPv6"`
		// Networks is a list, or one of the texts "auto" and "none".
		Networks json.RawMessage `json:"networks"`
	} `json:"server"`
}

func createServer(r *request) answer {
	var body serverBody
	if err := r.decode(&body); err != nil {
		return failure(ServiceCompute, http.StatusBadRequest, err.Error())
	}
	given := body.Server
	if given.Name == "" || given.FlavorRef == "" {
		return failure(ServiceCompute, http.StatusBadRequest, "Invalid input for field/attribute server. 'name' and 'flavorRef' are required properties")
	}
	flavor := r.server.findFlavor(given.FlavorRef)
	if flavor == nil || !flavor.visibleTo(r) {
		return failure(ServiceCompute, http.StatusBadRequest, "Flavor "+given.FlavorRef+" could not be found.")
	}
	status := "ACTIVE"
	if r.server.settings.provisioning > 0 {
		status = "BUILD"
	}
	i := r.server.addServer(Instance{
		Name: given.Name, ProjectID: r.projectID(), Status: status, Flavor: flavor.ID, AvailabilityZone: given.AvailabilityZone,
		Metadata: given.Metadata, Tags: given.Tags, AccessIPv4: given.AccessIPv4, AccessIPv6: given.AccessIPv6,
	})
	if refusal := r.plug(i, given.Networks); refusal != nil {
		r.server.removeServer(i)
		return *refusal
	}
	return answer{status: http.StatusAccepted, body: object{"server": object{
		"id": i.ID, "links": r.computeLinks("servers", i.ID), "OS-DCF:diskConfig": "MANUAL", "security_groups": []object{{"name": "default"}},
	}}}
}
