package neutron

import (
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// AddressRange are the addresses from First to Last, both included.
type AddressRange struct {
	First string `json:"start"`
	Last  string `json:"end"`
}

// Route is a route of a router, or a host route of a subnet.
type Route struct {
	// Destination is a CIDR.
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

// Subnet is a subnet of Neutron's. The zero value of each field is what a new subnet usually has.
type Subnet struct {
	ID, Name, Description string
	// ProjectID is the owner. Default: that of the network.
	ProjectID string
	NetworkID string
	// CIDR is of IPv4 or IPv6.
	CIDR string
	// Gateway is the address of the router. Default: the first address; with IPv6 that is the
	// prefix itself.
	Gateway   string
	NoGateway bool
	// Pools are what addresses are chosen from. Default: all but the gateway's.
	Pools       []AddressRange
	HostRoutes  []Route
	Nameservers []string
	// ServiceTypes are the device owners of the ports whose addresses may be chosen from this
	// subnet. Default: all.
	ServiceTypes []string
	NoDHCP       bool
	// AddressMode and RAMode are of IPv6: slaac, dhcpv6-stateful, dhcpv6-stateless.
	AddressMode, RAMode string
	Tags                []string
	// The rest is the cloud's to give.
	RevisionNumber       int
	CreatedAt, UpdatedAt time.Time

	version int
}

func (s *Subnet) standard() standard {
	return standard{
		id: &s.ID, name: &s.Name, description: &s.Description, project: &s.ProjectID, tags: &s.Tags,
		revision: &s.RevisionNumber, created: &s.CreatedAt, updated: &s.UpdatedAt,
	}
}

// AddSubnet creates a subnet and returns its id. It panics if the cloud would refuse it.
func (n *Service) AddSubnet(spec Subnet) string { return add(n, n.subnets, spec) }

// Subnets are all subnets, of all projects, in the order of their ids.
func (n *Service) Subnets() []Subnet { return snapshot(n, n.subnets) }

// DeleteSubnet deletes a subnet, as another client does. It is an error if it is in use.
func (n *Service) DeleteSubnet(id string) error { return remove(n, n.subnets, id) }

func (n *Service) subnetKind() *kind[Subnet] {
	administrators := func(c caller, _ *Subnet) bool { return c.admin }
	k := &kind[Subnet]{
		network: n, rows: map[string]*Subnet{},
		member: "subnet", collection: "subnets", path: "subnets", operation: "subnet",
		standard: (*Subnet).standard,
		missing: func(id string) error {
			return neutronNotFound("SubnetNotFound", "Subnet %s could not be found.", id)
		},
		visible: func(c caller, row *Subnet) bool {
			// Of an external network that is not shared all see the network, and none of its
			// subnets (neutron/conf/policies/subnet.py).
			parent, exists := n.networks.rows[row.NetworkID]
			return exists && (parent.Shared || n.networks.owns(c, parent))
		},
		prepare: func(row *Subnet) {
			if parent, exists := n.networks.rows[row.NetworkID]; exists && row.ProjectID == "" {
				row.ProjectID = parent.ProjectID
			}
		},
		admit: n.admitSubnet,
		held:  n.holdSubnet,
	}
	gateway := reference("gateway_ip", func(row *Subnet) *string { return &row.Gateway })
	setGateway := gateway.set
	gateway.set = func(row *Subnet, raw json.RawMessage) error {
		row.NoGateway = string(raw) == "null"
		return setGateway(row, raw)
	}
	pools := fieldOf("allocation_pools", func(row *Subnet) *[]AddressRange { return &row.Pools })
	pools.get = func(row *Subnet) any { return api.NonNil(row.Pools) }
	hostRoutes := fieldOf("host_routes", func(row *Subnet) *[]Route { return &row.HostRoutes })
	hostRoutes.get = func(row *Subnet) any { return api.NonNil(row.HostRoutes) }
	k.attributes = append(standardAttributes((*Subnet).standard),
		fieldOf("network_id", func(row *Subnet) *string { return &row.NetworkID }).needed(),
		fieldOf("ip_version", func(row *Subnet) *int { return &row.version }).needed(),
		fieldOf("cidr", func(row *Subnet) *string { return &row.CIDR }).atCreation(),
		gateway,
		pools.noFilter(),
		hostRoutes.noFilter(),
		textsOf("dns_nameservers",
			func(row *Subnet) *[]string { return &row.Nameservers }).noFilter(),
		textsOf("service_types", func(row *Subnet) *[]string { return &row.ServiceTypes }).
			noFilter().by(administrators).of("subnet-service-types"),
		unless("enable_dhcp", func(row *Subnet) *bool { return &row.NoDHCP }),
		reference("ipv6_address_mode",
			func(row *Subnet) *string { return &row.AddressMode }).atCreation(),
		reference("ipv6_ra_mode", func(row *Subnet) *string { return &row.RAMode }).atCreation(),
		shown("subnetpool_id", func(*Subnet) any { return nil }),
	)
	return k
}

func (n *Service) subnetIDs(networkID string) []string {
	ids := []string{}
	for _, subnet := range n.subnets.all() {
		if subnet.NetworkID == networkID {
			ids = append(ids, subnet.ID)
		}
	}
	return ids
}

func (n *Service) admitSubnet(c caller, old, row *Subnet) error {
	parent, err := n.networks.findFor(c, row.NetworkID)
	if err != nil {
		return err
	}
	if !n.networks.owns(c, parent) {
		return neutronForbidden("rule:create_subnet")
	}
	if row.CIDR == "" {
		return neutronBadRequest("BadRequest",
			"Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
	}
	prefix, err := netip.ParsePrefix(row.CIDR)
	if err != nil {
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: %s is not in a CIDR format.", row.CIDR)
	}
	prefix = prefix.Masked()
	if err := completeSubnet(row, prefix); err != nil {
		return err
	}
	if old != nil {
		return nil
	}
	for _, other := range n.subnets.all() {
		if other.NetworkID == row.NetworkID && netip.MustParsePrefix(other.CIDR).Overlaps(prefix) {
			return neutronBadRequest("InvalidInput",
				"Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.",
				row.CIDR, row.NetworkID)
		}
	}
	return nil
}

// completeSubnet gives a subnet the defaults of its prefix, and checks what was given against it.
func completeSubnet(row *Subnet, prefix netip.Prefix) error {
	version := 6
	if prefix.Addr().Is4() {
		version = 4
	}
	if row.version != 0 && row.version != version {
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: cidr '%s' does not match the ip_version '%d'.",
			row.CIDR, row.version)
	}
	row.version, row.CIDR = version, prefix.String()
	if row.Gateway == "" && !row.NoGateway {
		row.Gateway = defaultGateway(prefix).String()
	}
	gateway, err := netip.ParseAddr(row.Gateway)
	if err != nil && row.Gateway != "" {
		return invalidInput("gateway_ip", "'"+row.Gateway+"' is not a valid IP address")
	}
	if row.Pools == nil {
		row.Pools = poolsOf(prefix, gateway)
	}
	for _, pool := range row.Pools {
		first, errFirst := netip.ParseAddr(pool.First)
		last, errLast := netip.ParseAddr(pool.Last)
		if errFirst != nil || errLast != nil || last.Less(first) {
			return neutronBadRequest("InvalidAllocationPool",
				"The allocation pool %s-%s is not valid.", pool.First, pool.Last)
		}
		if !prefix.Contains(first) || !prefix.Contains(last) {
			return neutronBadRequest("OutOfBoundsAllocationPool",
				"The allocation pool %s-%s spans beyond the subnet cidr %s.", pool.First, pool.Last,
				prefix)
		}
		if gateway.IsValid() && !gateway.Less(first) && !last.Less(gateway) {
			return neutronConflict("GatewayConflictWithAllocationPools",
				"Gateway ip %s conflicts with allocation pool %s-%s.", gateway, pool.First,
				pool.Last)
		}
	}
	return nil
}

// defaultGateway is the first address that a host may have: with IPv6 that is the prefix itself,
// the address of all routers of the subnet.
func defaultGateway(prefix netip.Prefix) netip.Addr {
	if prefix.Addr().Is4() {
		return prefix.Addr().Next()
	}
	return prefix.Addr()
}

// poolsOf are all addresses of hosts but the gateway.
func poolsOf(prefix netip.Prefix, gateway netip.Addr) []AddressRange {
	first, last := prefix.Addr(), lastOf(prefix)
	if prefix.Bits() < prefix.Addr().BitLen()-1 {
		first = first.Next()
		if prefix.Addr().Is4() {
			last = last.Prev()
		}
	}
	pools := []AddressRange{}
	if !gateway.IsValid() || gateway.Less(first) || last.Less(gateway) {
		return append(pools, AddressRange{first.String(), last.String()})
	}
	if first.Less(gateway) {
		pools = append(pools, AddressRange{first.String(), gateway.Prev().String()})
	}
	if gateway.Less(last) {
		pools = append(pools, AddressRange{gateway.Next().String(), last.String()})
	}
	return pools
}

func lastOf(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Masked().Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

func (n *Service) holdSubnet(_ caller, row *Subnet) error {
	for _, port := range n.ports.all() {
		onSubnet := slices.ContainsFunc(port.FixedIPs,
			func(ip FixedIP) bool { return ip.SubnetID == row.ID })
		if onSubnet && !isAutomatic(port) {
			return neutronConflict("SubnetInUse",
				"Unable to complete operation on subnet %s: One or more ports have an IP allocation from this subnet.", row.ID)
		}
	}
	return nil
}
