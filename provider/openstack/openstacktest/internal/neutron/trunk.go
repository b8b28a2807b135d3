package neutron

import (
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// Subport is a port of a trunk.
type Subport struct {
	PortID           string `json:"port_id"`
	SegmentationType string `json:"segmentation_type"`
	SegmentationID   int    `json:"segmentation_id"`
}

// Trunk is a trunk of Neutron: a port that carries the traffic of others.
type Trunk struct {
	ID   string `api:"id,ro"`
	Name string `api:"name"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// PortID is the parent port.
	PortID   string    `api:"port_id,create,required"`
	Subports []Subport `api:"sub_ports,create,nofilter"`
	Tags     []string  `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

func (n *Service) trunkKind() *kind[Trunk] {
	return newKind(n, kind[Trunk]{
		member: "trunk", extension: "trunk",
		missing: notFound("TrunkNotFound", "Trunk %s could not be found."),
		admit:   n.admitTrunk,
	})
}

func (n *Service) admitTrunk(c caller, _, row *Trunk) error {
	_, err := n.Ports.findFor(c, row.PortID)
	for _, subport := range row.Subports {
		if err == nil {
			_, err = n.Ports.findFor(c, subport.PortID)
		}
	}
	return err
}

// trunkDetails is the attribute of a parent port: extension trunk-details. Other ports show null.
func (n *Service) trunkDetails() resource.Field[Port] {
	get := func(row *Port) any {
		for _, trunk := range n.Trunks.All() {
			if trunk.PortID == row.ID {
				return object{"trunk_id": trunk.ID, "sub_ports": api.NonNil(trunk.Subports)}
			}
		}
		return nil
	}
	return resource.Field[Port]{
		Name: "trunk_details", Get: get, Unfiltered: true, Feature: "trunk-details",
	}
}
