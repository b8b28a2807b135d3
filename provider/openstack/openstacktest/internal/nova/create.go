package nova

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// serverBody has the used attributes of the body of POST /servers.
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

func createServer(r *request) (answer, error) {
	var body serverBody
	if err := r.Decode(&body); err != nil {
		return answer{}, err
	}
	given := body.Server
	if err := r.checkNewServer(body); err != nil {
		return answer{}, err
	}
	flavor := r.nova.findFlavor(given.FlavorRef)
	if flavor == nil || !flavor.visibleTo(r) {
		return answer{}, refuse(http.StatusBadRequest,
			"Flavor "+given.FlavorRef+" could not be found.")
	}
	if zone := given.AvailabilityZone; zone != "" &&
		!slices.Contains(r.nova.zones, zone) {
		return answer{}, refuse(http.StatusBadRequest,
			"The requested availability zone is not available")
	}
	status := "ACTIVE"
	if r.nova.options.Provisioning > 0 {
		status = "BUILD"
	}
	i := r.nova.addServer(Server{
		Name: given.Name, ProjectID: r.ProjectID(), Status: status, Flavor: flavor.ID,
		AvailabilityZone: given.AvailabilityZone,
		Metadata:         given.Metadata, Tags: given.Tags, AccessIPv4: given.AccessIPv4,
		AccessIPv6: given.AccessIPv6,
	})
	if err := r.plug(i, given.Networks); err != nil {
		// The server was never created.
		delete(r.nova.servers, i.ID)
		r.nova.unplug(i)
		return answer{}, err
	}
	return answer{Status: http.StatusAccepted, Body: object{"server": object{
		"id": i.ID, "links": r.computeLinks("servers", i.ID), "OS-DCF:diskConfig": "MANUAL",
		"security_groups": []object{{"name": "default"}},
		"adminPass":       "password-" + i.ID,
	}}}, nil
}

// checkNewServer refuses values that Nova's schema of the body does not allow
// (nova/api/openstack/compute/schemas/servers.py). The schema depends on the microversion.
func (r *request) checkNewServer(body serverBody) error {
	given := body.Server
	missing := func(name string) error {
		return refuse(http.StatusBadRequest,
			"Invalid input for field/attribute server. '"+name+"' is a required property")
	}
	switch {
	case given.FlavorRef == "":
		return missing("flavorRef")
	case given.Tags != nil && !r.Version.AtLeast(52):
		return refuse(http.StatusBadRequest,
			"Invalid input for field/attribute server. Additional properties are not allowed ('tags' was unexpected)")
	case given.Networks == nil && r.Version.AtLeast(37):
		return missing("networks")
	case !r.Version.AtLeast(37) && strings.HasPrefix(string(given.Networks), `"`):
		text := strings.Trim(string(given.Networks), `"`)
		return refuse(http.StatusBadRequest,
			"Invalid input for field/attribute networks. Value: "+text+". '"+text+
				"' is not of type 'array'")
	case given.Name == "":
		return missing("name")
	}
	return checkServerAttributes(given.Name, given.AccessIPv4, given.AccessIPv6)
}
