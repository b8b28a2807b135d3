package neutron

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// The device owners that Neutron, Nova and Octavia set on ports.
const (
	OwnerInterface    = "network:router_interface"
	OwnerGateway      = "network:router_gateway"
	OwnerFloatingIP   = "network:floatingip"
	OwnerCompute      = "compute:nova"
	OwnerLoadBalancer = "Octavia"
)

// AddressPair allows a port to use an address in addition to its own.
type AddressPair struct {
	// Address is an address or a CIDR.
	Address string `json:"ip_address"`
	// MAC defaults to the port's.
	MAC string `json:"mac_address"`
}

// Port is a port of Neutron. The zero value of each field is the usual one of a new port.
type Port struct {
	ID          string `api:"id,ro"`
	Name        string `api:"name"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	NetworkID string `api:"network_id,create,required"`
	// DeviceID is the server, router or load balancer of the port; DeviceOwner is its kind.
	DeviceID    string `api:"device_id"`
	DeviceOwner string `api:"device_owner"`
	// FixedIPs are its addresses. An address is chosen if only the subnet is given. Default (nil):
	// one of each family of the network.
	FixedIPs []FixedIP `api:"fixed_ips"`
	// MACAddress is chosen by default.
	MACAddress string `api:"mac_address,create"`
	// Status is ACTIVE, DOWN, BUILD or ERROR. Default: ACTIVE with a device, else DOWN.
	Status string `api:"status,ro"`
	// Down ports are administratively down.
	Down bool `api:"admin_state_up,not"`
	// NoPortSecurity is also true for a port of a network without port security.
	NoPortSecurity bool          `api:"port_security_enabled,not,nofilter,feature=port-security"`
	AllowedPairs   []AddressPair `api:"allowed_address_pairs,nofilter,feature=allowed-address-pairs"`
	// SecurityGroups are IDs. Default (nil): the project's group default, unless the port belongs
	// to Neutron itself.
	SecurityGroups []string `api:"security_groups,feature=security-group"`
	Host           string   `api:"binding:host_id,admin,feature=binding"`
	Tags           []string `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

func (n *Service) portKind() *kind[Port] {
	mayPair := func(c caller, row *Port) bool { return c.admin || n.ownsNetworkOf(c, row) }
	k := newKind(n, kind[Port]{
		member:  "port",
		missing: notFound("PortNotFound", "Port %s could not be found."),
		visible: n.ownsNetworkOf,
		prepare: n.preparePort,
		admit:   n.admitPort,
		held:    n.holdPort,
		dismiss: n.dismissPort,
		index:   n.indexPort,
		policies: map[string]func(caller, *Port) bool{
			"allowed_address_pairs": mayPair,
			"port_security_enabled": func(c caller, row *Port) bool {
				return mayPair(c, row) || !row.NoPortSecurity
			},
		},
	}, n.trunkDetails())
	k.fields.Field("fixed_ips").Filter = byFixedIPs
	k.fields.Field("allowed_address_pairs").Set = func(row *Port, raw json.RawMessage) (err error) {
		row.AllowedPairs, err = pairsOf(raw)
		return err
	}
	// The API accepts tags of a new port, but ignores them without the extension
	// tag-ports-during-bulk-creation, which is off by default.
	tags := k.fields.Field("tags")
	tags.CreateOnly, tags.Set = true, func(*Port, json.RawMessage) error { return nil }
	// These are the checks of neutron's convert_to_uuid_list_or_none.
	k.fields.Change("security_groups", func(row *Port, _ json.RawMessage) error {
		for i, id := range row.SecurityGroups {
			if uuid.Validate(id) != nil {
				return invalidInput("security_groups", "'"+id+"' is not a valid UUID")
			}
			if slices.Contains(row.SecurityGroups[:i], id) {
				return invalidInput("security_groups", "Duplicate items in the list: '"+id+"'")
			}
		}
		return nil
	})
	return k
}

func pairsOf(raw json.RawMessage) ([]AddressPair, error) {
	var given []map[string]string
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, neutronBadRequest("HTTPBadRequest", "Allowed address pairs must be a list.")
	}
	pairs := []AddressPair{}
	for _, pair := range given {
		for _, key := range api.SortedKeys(pair) {
			if key != "ip_address" && key != "mac_address" {
				return nil,
					neutronBadRequest("HTTPBadRequest", "Unrecognized attribute(s) '%s'", key)
			}
		}
		if _, found := pair["ip_address"]; !found {
			return nil,
				neutronBadRequest("AllowedAddressPairsMissingIP",
					"AllowedAddressPair must contain ip_address")
		}
		next := AddressPair{Address: pair["ip_address"], MAC: pair["mac_address"]}
		if err := checkPair(next, pairs); err != nil {
			return nil, err
		}
		pairs = append(pairs, next)
	}
	return pairs, nil
}

// checkPair has the checks of a pair that do not need the port (neutron-lib's
// validate_allowed_address_pairs). So the port's own MAC address and no MAC address are different
// pairs.
func checkPair(pair AddressPair, before []AddressPair) error {
	if _, err := net.ParseMAC(pair.MAC); pair.MAC != "" && err != nil {
		return neutronBadRequest("HTTPBadRequest", "'%s' is not a valid MAC address", pair.MAC)
	}
	if slices.Contains(before, pair) {
		return neutronBadRequest("DuplicateAddressPairInRequest",
			"Request contains duplicate address pair: mac_address %s ip_address %s.",
			cmp.Or(pair.MAC, "None"), pair.Address)
	}
	if !isAddressOrPrefix(pair.Address) {
		return neutronBadRequest("HTTPBadRequest", "'%s' is not a valid IP address", pair.Address)
	}
	return nil
}

func (n *Service) ownsNetworkOf(c caller, row *Port) bool {
	parent, exists := n.Networks.rows[row.NetworkID]
	return exists && n.Networks.owns(c, parent)
}

// preparePort sets the defaults of the network on a new port.
func (n *Service) preparePort(row *Port) {
	if parent, exists := n.Networks.rows[row.NetworkID]; exists {
		row.NoPortSecurity = row.NoPortSecurity || parent.NoPortSecurity
	}
}

func (n *Service) admitPort(c caller, old, row *Port) error {
	parent, err := n.Networks.findFor(c, row.NetworkID)
	if err != nil {
		return err
	}
	// All projects see an external network, but only its owner may create ports
	// (neutron/db/external_net_db.py).
	if old == nil && parent.External && !parent.Shared && !n.Networks.owns(c, parent) {
		return refuse(http.StatusForbidden, "HTTPForbidden",
			"Tenant %s not allowed to create port on this network", c.project)
	}
	// Neutron trusts its own ports.
	if old == nil && strings.HasPrefix(row.DeviceOwner, "network:") {
		row.NoPortSecurity = true
	}
	if row.MACAddress == "" {
		n.macs++
		row.MACAddress = fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(n.macs>>16), byte(n.macs>>8),
			byte(n.macs))
	}
	if old == nil || !slices.Equal(old.FixedIPs, row.FixedIPs) {
		given, err := n.allocate(c, row, row.FixedIPs)
		if err != nil {
			return err
		}
		row.FixedIPs = given
	}
	if err := n.admitSecurity(c, old, row); err != nil {
		return err
	}
	if row.Status == "" ||
		(old != nil && old.Status == row.Status &&
			(old.DeviceID != row.DeviceID || old.Down != row.Down)) {
		row.Status = portStatus(c, old, row)
	}
	return n.admitPairs(row)
}

// portStatus sets the status. A device that a user names does not make a port ACTIVE; only a
// service binds a port to a host.
func portStatus(c caller, old, row *Port) string {
	bound := c.neutron || row.Host != "" || old != nil && old.Status == "ACTIVE"
	if row.DeviceID != "" && !row.Down && bound {
		return "ACTIVE"
	}
	return "DOWN"
}

// admitSecurity checks the attributes that need port security (neutron's ML2 plugin,
// _check_update_has_security_groups and others).
func (n *Service) admitSecurity(c caller, old, row *Port) error {
	if !n.has("security-group") {
		return nil
	}
	isNeutrons := strings.HasPrefix(row.DeviceOwner, "network:") || row.ProjectID == ""
	if row.SecurityGroups == nil && !row.NoPortSecurity && !isNeutrons && old == nil {
		row.SecurityGroups = []string{n.defaultGroup(row.ProjectID).ID}
	}
	if row.NoPortSecurity && len(row.SecurityGroups) > 0 {
		if old != nil && !old.NoPortSecurity {
			return neutronConflict("PortSecurityPortHasSecurityGroup",
				"Port has security group associated. Cannot disable port security or IP address until security group is removed.")
		}
		return neutronBadRequest("PortSecurityAndIPRequiredForSecurityGroups",
			"Port security must be enabled and port must have an IP address in order to use security groups.")
	}
	for _, id := range row.SecurityGroups {
		if _, err := n.SecurityGroups.findFor(c, id); err != nil {
			return err
		}
	}
	return nil
}

// mostPairs is the default of Neutron's max_allowed_address_pair.
const mostPairs = 10

func (n *Service) admitPairs(row *Port) error {
	if len(row.AllowedPairs) == 0 {
		return nil
	}
	if row.NoPortSecurity {
		return neutronConflict("AddressPairAndPortSecurityRequired",
			"Port Security must be enabled in order to have allowed address pairs on a port.")
	}
	if len(row.AllowedPairs) > mostPairs {
		return neutronBadRequest("AllowedAddressPairExhausted",
			"The number of allowed address pair exceeds the maximum %d.", mostPairs)
	}
	pairs := make([]AddressPair, 0, len(row.AllowedPairs))
	for _, pair := range row.AllowedPairs {
		if err := checkPair(pair, nil); err != nil {
			return err
		}
		if pair.MAC == "" {
			pair.MAC = row.MACAddress
		}
		pairs = append(pairs, pair)
	}
	row.AllowedPairs = pairs
	return nil
}

func isAddressOrPrefix(text string) bool {
	_, errAddress := netip.ParseAddr(text)
	_, errPrefix := netip.ParsePrefix(text)
	return errAddress == nil || errPrefix == nil
}

func (n *Service) holdPort(c caller, row *Port) error {
	if !c.neutron {
		switch row.DeviceOwner {
		case OwnerInterface, OwnerGateway, OwnerFloatingIP:
			return neutronConflict("ServicePortInUse",
				"Port %s cannot be deleted directly via the port API: has device owner %s.", row.ID,
				row.DeviceOwner)
		}
	}
	return nil
}

func (n *Service) dismissPort(row *Port) {
	for _, ip := range n.FloatingIPsOf(row.ID) {
		// It cannot fail, because the caller is Neutron itself.
		_ = n.FloatingIPs.change(neutronItself(), ip, (*FloatingIP).dissociate)
	}
}

func (n *Service) indexPort(old, row *Port) {
	n.addresses.index(old, row)
	if old != nil {
		n.portsByDevice[old.DeviceID] = slices.DeleteFunc(n.portsByDevice[old.DeviceID],
			func(id string) bool { return id == old.ID })
		if len(n.portsByDevice[old.DeviceID]) == 0 {
			delete(n.portsByDevice, old.DeviceID)
		}
	}
	if row != nil && row.DeviceID != "" {
		n.portsByDevice[row.DeviceID] = append(n.portsByDevice[row.DeviceID], row.ID)
	}
}

// The following methods are for the other services. Their callers hold the lock.

// PortsOf are the ports of a server, a router or a load balancer, sorted by ID.
func (n *Service) PortsOf(deviceID string) []*Port {
	if deviceID == "" {
		return nil
	}
	var ports []*Port
	for _, id := range slices.Sorted(slices.Values(n.portsByDevice[deviceID])) {
		ports = append(ports, n.Ports.rows[id])
	}
	return ports
}

// CreatePort creates a port for a service. An error is Neutron's refusal.
func (n *Service) CreatePort(spec Port) (*Port, error) {
	row := resource.Clone(spec)
	n.preparePort(&row)
	return &row, n.Ports.insert(neutronItself(), &row)
}

// RemovePort deletes a port for a service, whatever its device.
func (n *Service) RemovePort(id string) error {
	row, err := n.Ports.Find(id)
	if err != nil {
		return err
	}
	return n.Ports.remove(neutronItself(), row)
}

// BindPort sets the device of a port and its owner.
func (n *Service) BindPort(port *Port, device, owner string) error {
	return n.Ports.change(neutronItself(), port, func(p *Port) error {
		p.DeviceID, p.DeviceOwner = device, owner
		return nil
	})
}
