package nova

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// A Flavor is a size of servers.
type Flavor struct {
	// ID is generated if it is empty.
	ID, Name string
	VCPUs    int
	// RAM is in MiB, Disk in GiB.
	RAM, Disk int
	// Private hides the flavor from all users but administrators: a request for it is a 404.
	// Servers still show its values.
	Private    bool
	ExtraSpecs map[string]string
}

// AddFlavor implements Cloud.AddFlavor.
func (s *Service) AddFlavor(f Flavor) (id string) {
	defer s.Enter()()
	if f.ID == "" {
		f.ID = s.NewID()
	}
	s.deleteFlavor(f.ID)
	s.flavors = append(s.flavors, &f)
	return f.ID
}

// DeleteFlavor implements Cloud.DeleteFlavor.
func (s *Service) DeleteFlavor(idOrName string) error {
	defer s.Enter()()
	if !s.deleteFlavor(idOrName) {
		return fmt.Errorf("there is no flavor %s", idOrName)
	}
	return nil
}

func (s *Service) deleteFlavor(idOrName string) bool {
	f := s.findFlavor(idOrName)
	s.flavors = slices.DeleteFunc(s.flavors,
		func(other *Flavor) bool { return other == f })
	return f != nil
}

func (s *Service) findFlavor(idOrName string) *Flavor {
	for _, f := range s.flavors {
		if f.ID == idOrName || f.Name == idOrName {
			return f
		}
	}
	return nil
}

func (f *Flavor) visibleTo(r *request) bool { return !f.Private || r.IsAdmin() }

// flavorView is the flavor of a server: its ID, and since microversion 2.47 its values when the
// server was created.
func (i *instance) flavorView(r *request) object {
	f := i.flavor
	if !r.Version.AtLeast(47) {
		return object{"id": f.ID, "links": r.computeLinks("flavors", f.ID)[1:]}
	}
	return object{
		"original_name": f.Name, "vcpus": f.VCPUs, "ram": f.RAM, "disk": f.Disk, "ephemeral": 0,
		"swap":        0,
		"extra_specs": mapped(f.ExtraSpecs),
	}
}

func (f *Flavor) view(r *request) object {
	return object{
		"id": f.ID, "name": f.Name, "vcpus": f.VCPUs, "ram": f.RAM, "disk": f.Disk, "swap": "",
		"rxtx_factor":               1.0,
		"OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
		"os-flavor-access:is_public": !f.Private,
		"links":                      r.computeLinks("flavors", f.ID),
	}
}

// getFlavor finds a flavor only by ID.
func getFlavor(r *request) (answer, error) {
	id := r.PathValue("id")
	for _, f := range r.nova.flavors {
		if f.ID == id && f.visibleTo(r) {
			return api.OK(object{"flavor": f.view(r)}), nil
		}
	}
	return answer{}, refuse(http.StatusNotFound, "Flavor "+id+" could not be found.")
}

// byComputeAdmin refuses callers that are not administrators. The rule is the name of the
// operation in Nova's policy.
func (r *request) byComputeAdmin(rule string) error {
	if r.IsAdmin() {
		return nil
	}
	return refuse(http.StatusForbidden,
		"Policy doesn't allow os_compute_api:"+rule+" to be performed.")
}

// createFlavor creates a flavor. An ID that is missing or "auto" is generated.
func createFlavor(r *request) (answer, error) {
	if err := r.byComputeAdmin("os-flavor-manage:create"); err != nil {
		return answer{}, err
	}
	var body struct {
		Flavor struct {
			ID     string `json:"id"`
			Name   string `json:"name"`
			VCPUs  int    `json:"vcpus"`
			RAM    int    `json:"ram"`
			Disk   int    `json:"disk"`
			Public *bool  `json:"os-flavor-access:is_public"`
		} `json:"flavor"`
	}
	if err := r.Decode(&body); err != nil {
		return answer{}, err
	}
	given := body.Flavor
	if given.ID == "" || given.ID == "auto" {
		given.ID = r.nova.NewID()
	}
	if r.nova.findFlavor(given.Name) != nil {
		return answer{}, refuse(http.StatusConflict,
			"Flavor with name "+given.Name+" already exists.")
	}
	made := &Flavor{
		ID: given.ID, Name: given.Name, VCPUs: given.VCPUs, RAM: given.RAM, Disk: given.Disk,
		Private: given.Public != nil && !*given.Public,
	}
	r.nova.flavors = append(r.nova.flavors, made)
	return api.OK(object{"flavor": made.view(r)}), nil
}

func deleteFlavor(r *request) (answer, error) {
	if err := r.byComputeAdmin("os-flavor-manage:delete"); err != nil {
		return answer{}, err
	}
	if id := r.PathValue("id"); !r.nova.deleteFlavor(id) {
		return answer{}, refuse(http.StatusNotFound,
			"Flavor "+id+" could not be found.")
	}
	return answer{Status: http.StatusAccepted}, nil
}
