package neutron

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// FloatingIP is an address of an external network that points to a port.
type FloatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	NetworkID   string `json:"floating_network_id"`
	Description string `json:"description"`
	// Tags are nil if Neutron does not keep them.
	Tags []string `json:"tags"`
	// PortID is the port that it points to; "" for none.
	PortID string `json:"port_id"`
	// CreatedAt is a time in RFC 3339; "" if Neutron does not show it.
	CreatedAt string `json:"created_at"`
	// Revision grows with each change; nil if it is unknown or Neutron does not show it.
	Revision *int `json:"revision_number"`
}

// SecurityGroup opens the nodes' ports for one Service.
type SecurityGroup struct {
	// ID is empty in a desired group.
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Tags are nil in an observed group if Neutron does not keep them.
	Tags  []string `json:"tags"`
	Rules []Rule   `json:"security_group_rules"`
}

// Rule admits traffic to the ports with the security group.
type Rule struct {
	// ID is empty in a desired rule.
	ID string `json:"id"`
	// Direction is ingress or egress, EtherType IPv4 or IPv6, Protocol tcp, udp or sctp.
	Direction string `json:"direction"`
	EtherType string `json:"ethertype"`
	Protocol  string `json:"protocol"`
	// PortMin and PortMax are 0 for all ports.
	PortMin int `json:"port_range_min"`
	PortMax int `json:"port_range_max"`
	// RemotePrefix is a CIDR without host bits. For the members of a group it is a description, so
	// that the rule equals no desired rule.
	RemotePrefix string `json:"remote_ip_prefix"`
}

// UnmarshalJSON implements json.Unmarshaler. It brings the fields into the form of desired rules.
func (r *Rule) UnmarshalJSON(raw []byte) error {
	type plain Rule
	shown := struct {
		*plain
		GroupID        string `json:"remote_group_id"`
		AddressGroupID string `json:"remote_address_group_id"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return err
	}
	r.Direction, r.Protocol = strings.ToLower(r.Direction), protocolName(r.Protocol)
	switch strings.ToLower(r.EtherType) {
	case "ipv4":
		r.EtherType = "IPv4"
	case "ipv6":
		r.EtherType = "IPv6"
	}
	switch {
	case shown.GroupID != "":
		r.RemotePrefix = "security group " + shown.GroupID
	case shown.AddressGroupID != "":
		r.RemotePrefix = "address group " + shown.AddressGroupID
	default:
		r.RemotePrefix = canonicalPrefix(r.RemotePrefix, r.EtherType)
	}
	return nil
}

// protocolName returns the name of a protocol, which Neutron shows as a number if the creator of
// the rule used one.
func protocolName(text string) string {
	switch text {
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "132":
		return "sctp"
	}
	return strings.ToLower(text)
}

// canonicalPrefix returns a CIDR without host bits. Neutron treats no prefix and the prefix of all
// addresses as duplicates.
func canonicalPrefix(text, etherType string) string {
	switch {
	case text == "" && etherType == "IPv6":
		return "::/0"
	case text == "":
		return "0.0.0.0/0"
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked().String()
	}
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen()).String()
	}
	return text
}

// Same reports whether two rules admit the same traffic.
func (r Rule) Same(other Rule) bool {
	r.ID, other.ID = "", ""
	return r == other
}

// NodePort is a Neutron port of a server.
type NodePort struct {
	ID string `json:"id"`
	// ServerID is "" for a port that was created before its server and has outlived it.
	ServerID string `json:"device_id"`
	// Addresses are the fixed addresses.
	Addresses      []Address `json:"fixed_ips"`
	SecurityGroups []string  `json:"security_groups"`
	// PortSecurity is false if Neutron admits all traffic, and refuses security groups. If the
	// cloud does not support it, all ports have it.
	PortSecurity bool `json:"port_security_enabled"`
	// Revision is Neutron's revision number, which a change must name; -1 if Neutron has none.
	Revision int `json:"revision_number"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *NodePort) UnmarshalJSON(raw []byte) error {
	type plain NodePort
	*p = NodePort{PortSecurity: true, Revision: -1}
	return json.Unmarshal(raw, (*plain)(p))
}

// Port is a Neutron port, and its user.
type Port struct {
	ID string `json:"id"`
	// DeviceOwner and DeviceID name the user: a server, a router, a load balancer. They are empty
	// for a port that is not in use, and for one that a load balancer uses but did not create.
	DeviceOwner string `json:"device_owner"`
	DeviceID    string `json:"device_id"`
	NetworkID   string `json:"network_id"`
	ProjectID   string `json:"project_id"`
	// Addresses are the fixed addresses.
	Addresses []Address `json:"fixed_ips"`
	// OfProject: the port belongs to the project of the client.
	OfProject bool `json:"-"`
}

// Address is a fixed address of a port.
type Address struct {
	SubnetID string `json:"subnet_id"`
	IP       string `json:"ip_address"`
}

// Subnet holds the fields of a subnet that load balancers need.
type Subnet struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	NetworkID string   `json:"network_id"`
	CIDR      string   `json:"cidr"`
	Tags      []string `json:"tags"`
	// Gateway is the address of the router of servers in the subnet; "" for none.
	Gateway string `json:"gateway_ip"`
	// HostRoutes are the further routes of servers in the subnet.
	HostRoutes []HostRoute `json:"host_routes"`
	// CreatedAt is a time in RFC 3339; "" if Neutron does not show it.
	CreatedAt string `json:"created_at"`
	// IPv6 is false for IPv4.
	IPv6 bool `json:"-"`
}

// HostRoute is a route of servers in a subnet.
type HostRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

// nextHop returns the next hop to a range: that of the smallest host route around it, or else the
// gateway. Without either it returns the zero address. No host route is around the zero Prefix.
func (s Subnet) nextHop(to netip.Prefix) netip.Addr {
	hop, _ := netip.ParseAddr(s.Gateway)
	bits := -1
	for _, route := range s.HostRoutes {
		around, err := netip.ParsePrefix(route.Destination)
		if err != nil || around.Bits() <= bits || around.Bits() > to.Bits() ||
			!around.Contains(to.Addr()) {
			continue
		}
		bits = around.Bits()
		hop, _ = netip.ParseAddr(route.NextHop)
	}
	return hop
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Subnet) UnmarshalJSON(raw []byte) error {
	type plain Subnet
	shown := struct {
		*plain
		Version int `json:"ip_version"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(raw, &shown)
	s.IPv6 = shown.Version == 6
	return err
}

// WantedFloatingIP is the desired floating IP of a load balancer. An existing one stays, unless the
// Service requests another address.
type WantedFloatingIP struct {
	// NetworkID is the network of a new floating IP. Empty: only an existing one, or the requested
	// address, can be used.
	NetworkID string
	// SubnetIDs are tried in this order. Empty: Neutron chooses.
	SubnetIDs []string
	// ID is that of an existing floating IP, which is used; "" for any.
	ID string
	// PoolTag is the tag of the floating IPs of which an unused one is used; "" for any.
	PoolTag string
	// Address is the requested address; "" for any. Source is the setting that requests it, for
	// people.
	Address, Source string
	// Description and Tags are set on a new one.
	Description string
	Tags        []string
}

func (f FloatingIP) identifier() string    { return f.ID }
func (g SecurityGroup) identifier() string { return g.ID }
func (r Rule) identifier() string          { return r.ID }
func (p NodePort) identifier() string      { return p.ID }
func (p Port) identifier() string          { return p.ID }
func (s Subnet) identifier() string        { return s.ID }
