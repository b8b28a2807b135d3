package neutron

import (
	"net/netip"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// FloatingIP is a floating IP of Neutron. The zero value of each field is the usual one of a new
// floating IP.
type FloatingIP struct {
	ID          string `api:"id,ro"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// NetworkID is its external network; SubnetID selects among its subnets, only at creation.
	NetworkID string `api:"floating_network_id,create,required"`
	SubnetID  string `api:"subnet_id,create,hidden,nofilter"`
	// Address is chosen by default.
	Address string `api:"floating_ip_address,create"`
	// PortID is its port, and FixedAddress the address of the port. Default: the only IPv4 address
	// of the port.
	PortID       string   `api:"port_id,null,uuid"`
	FixedAddress string   `api:"fixed_ip_address,null,ip"`
	RouterID     string   `api:"router_id,ro,null"`
	Status       string   `api:"status,ro"`
	Tags         []string `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

// dissociate removes the port from a floating IP.
func (f *FloatingIP) dissociate() error {
	f.PortID, f.FixedAddress = "", ""
	return nil
}

func (n *Service) floatingIPKind() *kind[FloatingIP] {
	return newKind(n, kind[FloatingIP]{
		member: "floatingip", operation: "floating_ip", extension: "router",
		missing: notFound("FloatingIPNotFound", "Floating IP %s could not be found"),
		admit:   n.admitFloatingIP,
		settled: n.settleFloatingIP,
		dismiss: n.dismissFloatingIP,
		index:   n.indexFloatingIP,
		policies: map[string]func(caller, *FloatingIP) bool{
			"floating_ip_address": func(c caller, _ *FloatingIP) bool {
				return c.admin || n.options.UserChosenAddresses
			},
		},
	}, resource.Field[FloatingIP]{
		Name: "port_details", Get: n.portDetails, Unfiltered: true, Feature: "fip-port-details",
	})
}

func (n *Service) portDetails(row *FloatingIP) any {
	port, exists := n.Ports.rows[row.PortID]
	if !exists {
		return nil
	}
	return object{
		"name": port.Name, "network_id": port.NetworkID, "mac_address": port.MACAddress,
		"admin_state_up": !port.Down,
		"status":         port.Status, "device_id": port.DeviceID, "device_owner": port.DeviceOwner,
	}
}

func (n *Service) admitFloatingIP(c caller, old, row *FloatingIP) error {
	if old == nil {
		external, err := n.Networks.findFor(c, row.NetworkID)
		if err != nil {
			return err
		}
		if !external.External {
			return floatingIPRefused("Network %s is not a valid external network", row.NetworkID)
		}
		if err := n.chooseFloatingAddress(row); err != nil {
			return err
		}
	}
	if old != nil && old.PortID != row.PortID && old.FixedAddress == row.FixedAddress {
		row.FixedAddress = ""
	}
	row.RouterID, row.Status = "", "DOWN"
	if row.PortID == "" {
		row.FixedAddress = ""
		return nil
	}
	return n.associate(c, row)
}

func floatingIPRefused(format string, arguments ...any) error {
	return neutronBadRequest("BadRequest", "Bad floatingip request: "+format+".", arguments...)
}

// chooseFloatingAddress chooses the address like that of a port, which settleFloatingIP creates
// later.
func (n *Service) chooseFloatingAddress(row *FloatingIP) error {
	wanted := []FixedIP{{SubnetID: row.SubnetID, Address: row.Address}}
	if row.SubnetID == "" && row.Address == "" {
		wanted = nil
	}
	given, err := n.allocate(neutronItself(),
		&Port{NetworkID: row.NetworkID, DeviceOwner: OwnerFloatingIP}, wanted)
	if err != nil {
		return err
	}
	for _, ip := range given {
		if netip.MustParseAddr(ip.Address).Is4() {
			row.Address, row.SubnetID = ip.Address, ip.SubnetID
			return nil
		}
	}
	return neutronBadRequest("ExternalIpAddressExhausted",
		"Unable to find any IP address on external network %s.", row.NetworkID)
}

// associate checks the port of a floating IP (neutron's l3_db, _get_assoc_data and
// _internal_fip_assoc_data).
func (n *Service) associate(c caller, row *FloatingIP) error {
	port, err := n.Ports.findFor(c, row.PortID)
	if err != nil {
		return err
	}
	fixed, err := fixedAddressOf(port, row.FixedAddress)
	if err != nil {
		return err
	}
	router := n.routerBetween(fixed.SubnetID, row.NetworkID)
	if router == nil {
		return neutronNotFound("ExternalGatewayForFloatingIPNotFound",
			"External network %s is not reachable from subnet %s.  Therefore, cannot associate Port %s with a Floating IP.",
			row.NetworkID, fixed.SubnetID, row.PortID)
	}
	for _, other := range n.FloatingIPsOf(row.PortID) {
		if other.ID != row.ID && other.FixedAddress == fixed.Address &&
			other.NetworkID == row.NetworkID {
			return neutronConflict("FloatingIPPortAlreadyAssociated",
				"Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
				row.Address, row.ID, row.PortID, fixed.Address, row.NetworkID)
		}
	}
	row.FixedAddress, row.RouterID, row.Status = fixed.Address, router.ID, "ACTIVE"
	return nil
}

// fixedAddressOf is the wanted address of a port; "" selects its only IPv4 address.
func fixedAddressOf(port *Port, wanted string) (FixedIP, error) {
	if address, err := netip.ParseAddr(wanted); err == nil && address.Is6() {
		return FixedIP{},
			floatingIPRefused(
				"Cannot process floating IP association with %s, since that is not an IPv4 address",
				wanted)
	}
	var candidates []FixedIP
	for _, ip := range port.FixedIPs {
		if wanted == "" && netip.MustParseAddr(ip.Address).Is4() || wanted != "" &&
			sameAddress(ip.Address, wanted) {
			candidates = append(candidates, ip)
		}
	}
	switch {
	case len(candidates) == 1:
		return candidates[0], nil
	case wanted != "":
		return FixedIP{}, floatingIPRefused("Port %s does not have fixed ip %s", port.ID, wanted)
	case len(candidates) == 0:
		return FixedIP{},
			floatingIPRefused("Cannot add floating IP to port %s that has no fixed IPv4 addresses",
				port.ID)
	}
	return FixedIP{}, floatingIPRefused(
		"Port %s has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP", port.ID)
}

// settleFloatingIP creates the port that has the address on the external network. The port has no
// project, so only administrators see it.
func (n *Service) settleFloatingIP(_ caller, old, row *FloatingIP) {
	if old != nil {
		return
	}
	// It cannot fail, because the address is allocated.
	_, _ = n.CreatePort(Port{
		NetworkID: row.NetworkID, DeviceID: row.ID, DeviceOwner: OwnerFloatingIP,
		FixedIPs: []FixedIP{{row.SubnetID, row.Address}},
	})
}

func (n *Service) dismissFloatingIP(row *FloatingIP) {
	for _, port := range n.PortsOf(row.ID) {
		n.Ports.forget(port)
	}
}

func (n *Service) indexFloatingIP(old, row *FloatingIP) {
	if old != nil {
		n.floatingByPort[old.PortID] = slices.DeleteFunc(n.floatingByPort[old.PortID],
			func(id string) bool { return id == old.ID })
		if len(n.floatingByPort[old.PortID]) == 0 {
			delete(n.floatingByPort, old.PortID)
		}
	}
	if row != nil && row.PortID != "" {
		n.floatingByPort[row.PortID] = append(n.floatingByPort[row.PortID], row.ID)
	}
}

// FloatingIPsOf are the floating IPs of a port, sorted by ID. The caller holds the lock.
func (n *Service) FloatingIPsOf(portID string) []*FloatingIP {
	var ips []*FloatingIP
	for _, id := range slices.Sorted(slices.Values(n.floatingByPort[portID])) {
		ips = append(ips, n.FloatingIPs.rows[id])
	}
	return ips
}
