package neutron

import (
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// OperatorProjectID is the project that owns external networks, which no user can log in to.
const OperatorProjectID = "00000000000000000000000000000000"

// Network is a network of Neutron's. The zero value of each field is what a new network usually
// has.
type Network struct {
	// ID is made by the cloud unless it is given.
	ID          string `api:"id,ro"`
	Name        string `api:"name"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project, and for external
	// networks a project without users.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// External networks give floating IPs and routers' gateways, and are seen by all projects.
	External bool `api:"router:external,feature=external-net"`
	// Shared networks are seen and used by all projects.
	Shared bool `api:"shared"`
	// Down networks are administratively down.
	Down bool `api:"admin_state_up,not"`
	// NoPortSecurity is what its new ports have.
	NoPortSecurity bool `api:"port_security_enabled,not,feature=port-security"`
	// MTU is in bytes. Default 1,450.
	MTU               int      `api:"mtu,feature=net-mtu"`
	AvailabilityZones []string `api:"availability_zone_hints|availability_zones,create,nofilter,feature=network_availability_zone"`
	Tags              []string `api:"tags,ro,feature=standard-attr-tag"`
	// The cloud sets the following fields.
	RevisionNumber int       `api:"revision_number,ro,feature=standard-attr-revisions"`
	CreatedAt      time.Time `api:"created_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
	UpdatedAt      time.Time `api:"updated_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
}

// AddNetwork creates a network and returns its id. It panics if the cloud would refuse it.
func (n *Service) AddNetwork(spec Network) string { return add(n, n.networks, spec) }

// Networks are all networks, of all projects, in the order of their ids.
func (n *Service) Networks() []Network { return snapshot(n, n.networks) }

// DeleteNetwork deletes a network with its subnets, as another client does. It is an error if it is
// in use.
func (n *Service) DeleteNetwork(id string) error { return remove(n, n.networks, id) }

func (n *Service) networkKind() *kind[Network] {
	mayShare := func(c caller, row *Network) bool { return c.admin || !row.Shared && !row.External }
	return newKind(n, kind[Network]{
		member: "network", collection: "networks", path: "networks", operation: "network",
		missing: func(id string) error {
			return neutronNotFound("NetworkNotFound", "Network %s could not be found.", id)
		},
		visible: func(_ caller, row *Network) bool { return row.Shared || row.External },
		prepare: func(row *Network) {
			if row.External && row.ProjectID == "" {
				row.ProjectID = OperatorProjectID
			}
		},
		admit:   func(_ caller, _, row *Network) error { return completeNetwork(row) },
		held:    n.holdNetwork,
		dismiss: n.dismissNetwork,
		policies: map[string]func(caller, *Network) bool{
			"shared": mayShare, "router:external": mayShare,
		},
	},
		resource.Shown("status", func(*Network) any { return "ACTIVE" }),
		resource.Field[Network]{
			Name: "subnets", Unfiltered: true,
			Get: func(row *Network) any { return n.subnetIDs(row.ID) },
		})
}

func completeNetwork(row *Network) error {
	if row.MTU == 0 {
		row.MTU = 1450
	}
	return nil
}

func (n *Service) holdNetwork(_ caller, row *Network) error {
	for _, port := range n.ports.all() {
		if port.NetworkID == row.ID && !isAutomatic(port) {
			return neutronConflict("NetworkInUse",
				"Unable to complete operation on network %s. There are one or more ports still in use on the network.", row.ID)
		}
	}
	return nil
}

func (n *Service) dismissNetwork(_ caller, row *Network) error {
	for _, port := range n.ports.all() {
		if port.NetworkID == row.ID {
			n.ports.forget(port)
		}
	}
	for _, subnet := range n.subnets.all() {
		if subnet.NetworkID == row.ID {
			n.subnets.forget(subnet)
		}
	}
	return nil
}

// isAutomatic tells whether Neutron deletes the port together with the last subnet or the network.
func isAutomatic(port *Port) bool { return strings.HasPrefix(port.DeviceOwner, "network:dhcp") }
