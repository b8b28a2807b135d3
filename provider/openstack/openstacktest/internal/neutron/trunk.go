package neutron

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// Subport is a port of a trunk's.
type Subport struct {
	PortID string `json:"port_id"`
	// SegmentationType is "vlan" by default.
	SegmentationType string `json:"segmentation_type"`
	SegmentationID   int    `json:"segmentation_id"`
}

// Trunk is a trunk of Neutron's: a port that carries the traffic of others.
type Trunk struct {
	ID          string `api:"id,ro"`
	Name        string `api:"name"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// PortID is the parent port.
	PortID   string    `api:"port_id,create,required"`
	Subports []Subport `api:"sub_ports,create,nofilter"`
	// Down trunks are administratively down.
	Down bool     `api:"admin_state_up,not"`
	Tags []string `api:"tags,ro,feature=standard-attr-tag"`
	// The cloud sets the following fields.
	RevisionNumber int       `api:"revision_number,ro,feature=standard-attr-revisions"`
	CreatedAt      time.Time `api:"created_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
	UpdatedAt      time.Time `api:"updated_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
}

// AddTrunk creates a trunk and returns its id. It panics if the cloud would refuse it.
func (n *Service) AddTrunk(spec Trunk) string { return add(n, n.trunks, spec) }

// Trunks are all trunks, of all projects, in the order of their ids.
func (n *Service) Trunks() []Trunk { return snapshot(n, n.trunks) }

// DeleteTrunk deletes a trunk, as another client does. Its ports stay.
func (n *Service) DeleteTrunk(id string) error { return remove(n, n.trunks, id) }

func (n *Service) trunkKind() *kind[Trunk] {
	return newKind(n, kind[Trunk]{
		member: "trunk", collection: "trunks", path: "trunks", operation: "trunk",
		extension: "trunk",
		missing: func(id string) error {
			return neutronNotFound("TrunkNotFound", "Trunk %s could not be found.", id)
		},
		admit:   n.admitTrunk,
		settled: n.settleTrunk,
		held:    func(c caller, row *Trunk) error { return row.checkEnabled(c) },
		dismiss: func(_ caller, row *Trunk) error { return n.markSubports(row.Subports, nil) },
	}, resource.Shown("status", func(*Trunk) any { return "ACTIVE" }))
}

func (n *Service) admitTrunk(c caller, old, row *Trunk) error {
	if old == nil {
		if _, err := n.ports.findFor(c, row.PortID); err != nil {
			return err
		}
		if n.isParent(row.PortID) {
			return parentPortTaken(row.PortID)
		}
		if n.trunkOfSubport(row.PortID) != nil {
			return trunkPortTaken(row.PortID)
		}
	}
	subports := slices.Clone(row.Subports)
	var there []Subport
	if old != nil {
		there = slices.Clone(old.Subports)
	}
	for i, subport := range subports {
		if _, err := n.ports.findFor(c, subport.PortID); err != nil {
			return err
		}
		if at := slices.Index(there, subport); at >= 0 {
			there = slices.Delete(there, at, at+1)
			continue
		}
		if subport.SegmentationType == "" && c.neutron {
			subports[i].SegmentationType = "vlan"
		}
		if err := n.checkSubport(row, subports[:i], subports[i]); err != nil {
			return err
		}
	}
	row.Subports = subports
	return nil
}

// checkSubport is as neutron's services/trunk/rules.py has it.
func (n *Service) checkSubport(row *Trunk, before []Subport, subport Subport) error {
	switch {
	case subport.PortID == row.PortID || n.isParent(subport.PortID):
		return parentPortTaken(subport.PortID)
	case n.trunkOfSubport(subport.PortID) != nil:
		return trunkPortTaken(subport.PortID)
	case subport.SegmentationType == "" || subport.SegmentationID == 0:
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: Invalid subport details '{'port_id': '%s'}': missing segmentation "+
				"information. Must specify both segmentation_id and segmentation_type.",
			subport.PortID)
	case subport.SegmentationType != "vlan":
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: Unknown segmentation_type '%s'.",
			subport.SegmentationType)
	case subport.SegmentationID < 1 || subport.SegmentationID > 4094:
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: Segmentation ID '%d' is not in range.",
			subport.SegmentationID)
	}
	for _, other := range before {
		if other.SegmentationType == subport.SegmentationType &&
			other.SegmentationID == subport.SegmentationID {
			return neutronConflict("DuplicateSubPort",
				"segmentation_type %s and segmentation_id %d already in use on trunk %s.",
				subport.SegmentationType, subport.SegmentationID, row.ID)
		}
	}
	return nil
}

func (n *Service) isParent(portID string) bool {
	return slices.ContainsFunc(n.trunks.all(),
		func(trunk *Trunk) bool { return trunk.PortID == portID })
}

func parentPortTaken(portID string) error {
	return neutronConflict("ParentPortInUse",
		"Port %s is currently in use and is not eligible for use as a parent port.", portID)
}

func trunkPortTaken(portID string) error {
	return neutronConflict("TrunkPortInUse", "Port %s is in use by another trunk.", portID)
}

// checkEnabled: a trunk that is administratively down is not changed, and not deleted.
func (t *Trunk) checkEnabled(c caller) error {
	if t.Down && !c.neutron {
		return neutronConflict("TrunkDisabled", "Trunk %s is currently disabled.", t.ID)
	}
	return nil
}

func parentPortInUse(portID, trunkID string) error {
	return neutronConflict("PortInUseAsTrunkParent",
		"Port %s is currently a parent port for trunk %s.", portID, trunkID)
}

func subportInUse(portID, trunkID string) error {
	return neutronConflict("PortInUseAsSubPort", "Port %s is currently a subport for trunk %s.",
		portID, trunkID)
}

func (n *Service) trunkOfSubport(portID string) *Trunk {
	for _, trunk := range n.trunks.all() {
		if slices.ContainsFunc(trunk.Subports,
			func(subport Subport) bool { return subport.PortID == portID }) {
			return trunk
		}
	}
	return nil
}

// checkTrunksOf refuses to delete a port that a trunk needs.
func (n *Service) checkTrunksOf(port *Port) error {
	for _, trunk := range n.trunks.all() {
		if trunk.PortID == port.ID {
			return parentPortInUse(port.ID, trunk.ID)
		}
	}
	if trunk := n.trunkOfSubport(port.ID); trunk != nil {
		return subportInUse(port.ID, trunk.ID)
	}
	return nil
}

func (n *Service) settleTrunk(_ caller, old, row *Trunk) error {
	if old == nil {
		return n.markSubports(nil, row.Subports)
	}
	return n.markSubports(old.Subports, row.Subports)
}

// markSubports tells the ports that they are subports, or no longer.
func (n *Service) markSubports(old, subports []Subport) error {
	for _, group := range []struct {
		subports []Subport
		owner    string
	}{{old, ""}, {subports, OwnerSubport}} {
		for _, subport := range group.subports {
			port, exists := n.ports.rows[subport.PortID]
			if !exists {
				continue
			}
			err := n.ports.change(neutronItself(), port, func(changed *Port) error {
				changed.DeviceOwner = group.owner
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// trunkDetails is the attribute of a parent port: extension trunk-details. Other ports show null.
func (n *Service) trunkDetails() resource.Field[Port] {
	get := func(row *Port) any {
		for _, trunk := range n.trunks.all() {
			if trunk.PortID != row.ID {
				continue
			}
			subports := []object{}
			for _, subport := range trunk.Subports {
				subports = append(subports, object{
					"port_id": subport.PortID, "segmentation_type": subport.SegmentationType,
					"segmentation_id": subport.SegmentationID,
					"mac_address":     n.ports.rows[subport.PortID].MACAddress,
				})
			}
			return object{"trunk_id": trunk.ID, "sub_ports": subports}
		}
		return nil
	}
	return resource.Field[Port]{
		Name: "trunk_details", Get: get, Unfiltered: true, Feature: "trunk-details",
	}
}

func (n *Service) addSubports(r *request, c caller, row *Trunk) (answer, error) {
	return n.editSubports(r, c, row, func(old, given []Subport) ([]Subport, error) {
		return slices.Concat(old, given), nil
	})
}

func (n *Service) removeSubports(r *request, c caller, row *Trunk) (answer, error) {
	return n.editSubports(r, c, row, func(old, given []Subport) ([]Subport, error) {
		left := slices.Clone(old)
		for _, gone := range given {
			at := slices.IndexFunc(left,
				func(subport Subport) bool { return subport.PortID == gone.PortID })
			if at < 0 {
				return nil,
					neutronNotFound("SubPortNotFound", "SubPort %s on trunk %s could not be found.",
						gone.PortID, row.ID)
			}
			left = slices.Delete(left, at, at+1)
		}
		return left, nil
	})
}

func (n *Service) editSubports(
	r *request, c caller, row *Trunk, edit func(old, given []Subport) ([]Subport, error),
) (answer, error) {
	var given struct {
		Subports json.RawMessage `json:"sub_ports"`
	}
	var subports []Subport
	if err := r.Decode(&given); err != nil {
		return answer{}, err
	}
	if err := json.Unmarshal(given.Subports, &subports); err != nil {
		return answer{},
			neutronBadRequest("InvalidInput",
				"Invalid input for operation: Invalid data format for subports: %s is not a list.",
				"'"+resource.Text(given.Subports)+"'")
	}
	if err := row.checkEnabled(c); err != nil {
		return answer{}, err
	}
	err := n.trunks.change(c, row, func(changed *Trunk) error {
		var err error
		changed.Subports, err = edit(changed.Subports, subports)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return api.OK(n.trunks.render(c, row, nil)), nil
}

func (n *Service) getSubports(r *request) (answer, error) {
	row, err := n.trunks.findFor(callerOf(r), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"sub_ports": api.NonNil(row.Subports)}), nil
}
