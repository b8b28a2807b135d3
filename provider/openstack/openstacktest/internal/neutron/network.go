package neutron

import (
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// OperatorProjectID is the project that owns external networks, which no user can log in to.
const OperatorProjectID = "00000000000000000000000000000000"

// Network is a network of Neutron's. The zero value of each field is what a new network usually
// has.
type Network struct {
	// ID is made by the cloud unless it is given.
	ID, Name, Description string
	// ProjectID is the owner. Default: [DefaultProject], and for external networks
	// [OperatorProjectID].
	ProjectID string
	// External networks give floating IPs and routers' gateways, and are seen by all projects.
	External bool
	// Shared networks are seen and used by all projects.
	Shared bool
	// Down networks are administratively down.
	Down bool
	// NoPortSecurity is what its new ports have.
	NoPortSecurity bool
	// MTU is in bytes. Default 1,450.
	MTU               int
	AvailabilityZones []string
	Tags              []string
	// The rest is the cloud's to give.
	RevisionNumber       int
	CreatedAt, UpdatedAt time.Time
}

func (n *Network) standard() standard {
	return standard{
		id: &n.ID, name: &n.Name, description: &n.Description, project: &n.ProjectID, tags: &n.Tags,
		revision: &n.RevisionNumber, created: &n.CreatedAt, updated: &n.UpdatedAt,
	}
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
	k := &kind[Network]{
		network: n, rows: map[string]*Network{},
		member: "network", collection: "networks", path: "networks", operation: "network",
		standard: (*Network).standard,
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
	}
	k.attributes = append(standardAttributes((*Network).standard),
		unless("admin_state_up", func(row *Network) *bool { return &row.Down }),
		shown("status", func(*Network) any { return "ACTIVE" }),
		shown("subnets", func(row *Network) any { return n.subnetIDs(row.ID) }).noFilter(),
		fieldOf("shared", func(row *Network) *bool { return &row.Shared }).by(mayShare),
		fieldOf("router:external",
			func(row *Network) *bool { return &row.External }).by(mayShare).of("external-net"),
		fieldOf("mtu", func(row *Network) *int { return &row.MTU }).of("net-mtu"),
		unless("port_security_enabled",
			func(row *Network) *bool { return &row.NoPortSecurity }).of("port-security"),
		shown("availability_zones",
			func(row *Network) any { return api.NonNil(row.AvailabilityZones) }).
			noFilter().of("network_availability_zone"),
		textsOf("availability_zone_hints",
			func(row *Network) *[]string { return &row.AvailabilityZones }).
			noFilter().atCreation().of("network_availability_zone"),
	)
	return k
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
