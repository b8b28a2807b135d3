package neutron

import (
	"encoding/json"
	"net/netip"
)

// AddressRange are the addresses from First to Last, both included.
type AddressRange struct {
	First string `json:"start"`
	Last  string `json:"end"`
}

// Route is a route of a router, or of the servers in a subnet.
type Route struct {
	// Destination is a CIDR.
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

// Subnet is a subnet of Neutron. The zero value of each field is the usual one of a new subnet.
type Subnet struct {
	ID   string `api:"id,ro"`
	Name string `api:"name"`
	// ProjectID is the owner. Default: that of the network.
	ProjectID string `api:"project_id|tenant_id,ro"`
	NetworkID string `api:"network_id,create,required"`
	// IPVersion is 4 or 6. Default: that of CIDR.
	IPVersion int `api:"ip_version,create,required"`
	// CIDR is of IPv4 or IPv6.
	CIDR string `api:"cidr,create"`
	// Gateway is the address of the router. Default: the first address; with IPv6 that is the
	// prefix itself.
	Gateway   string `api:"gateway_ip,null"`
	NoGateway bool
	// Pools are the ranges from which addresses are chosen. Default: all but the gateway's.
	Pools []AddressRange `api:"allocation_pools,nofilter"`
	// HostRoutes are further routes of the servers in the subnet.
	HostRoutes []Route  `api:"host_routes,nofilter"`
	NoDHCP     bool     `api:"enable_dhcp,not"`
	Tags       []string `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

func (n *Service) subnetKind() *kind[Subnet] {
	k := newKind(n, kind[Subnet]{
		member:  "subnet",
		missing: notFound("SubnetNotFound", "Subnet %s could not be found."),
		visible: func(c caller, row *Subnet) bool {
			// All projects see an external network, but in Zed not its subnets unless it is
			// shared (neutron/conf/policies/subnet.py).
			parent, exists := n.Networks.rows[row.NetworkID]
			return exists && (parent.Shared || n.Networks.owns(c, parent) ||
				parent.External && n.options.ExternalSubnets)
		},
		prepare: func(row *Subnet) {
			if parent, exists := n.Networks.rows[row.NetworkID]; exists && row.ProjectID == "" {
				row.ProjectID = parent.ProjectID
			}
		},
		admit: n.admitSubnet,
		kept:  true,
	})
	k.fields.Change("gateway_ip", func(row *Subnet, raw json.RawMessage) error {
		row.NoGateway = string(raw) == "null"
		return nil
	})
	return k
}

func (n *Service) subnetIDs(networkID string) []string {
	ids := []string{}
	for _, subnet := range n.Subnets.All() {
		if subnet.NetworkID == networkID {
			ids = append(ids, subnet.ID)
		}
	}
	return ids
}

func (n *Service) admitSubnet(c caller, old, row *Subnet) error {
	parent, err := n.Networks.findFor(c, row.NetworkID)
	if err != nil {
		return err
	}
	if !n.Networks.owns(c, parent) {
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
	for _, other := range n.Subnets.All() {
		if other.NetworkID == row.NetworkID && netip.MustParsePrefix(other.CIDR).Overlaps(prefix) {
			return neutronBadRequest("InvalidInput",
				"Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.",
				row.CIDR, row.NetworkID)
		}
	}
	return nil
}

// completeSubnet sets the defaults that follow from the prefix, and checks the given values.
func completeSubnet(row *Subnet, prefix netip.Prefix) error {
	version := 6
	if prefix.Addr().Is4() {
		version = 4
	}
	if row.IPVersion != 0 && row.IPVersion != version {
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: cidr '%s' does not match the ip_version '%d'.",
			row.CIDR, row.IPVersion)
	}
	row.IPVersion, row.CIDR = version, prefix.String()
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
	return nil
}

// defaultGateway is the first address of a host. With IPv6 that is the prefix itself, the address
// of all routers of the subnet.
func defaultGateway(prefix netip.Prefix) netip.Addr {
	if prefix.Addr().Is4() {
		return prefix.Addr().Next()
	}
	return prefix.Addr()
}

// poolsOf are all addresses of hosts except the gateway.
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
