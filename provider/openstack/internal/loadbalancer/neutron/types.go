package neutron

// FloatingIP is an address of an external network that points to a port.
type FloatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	NetworkID   string `json:"floating_network_id"`
	Description string `json:"description"`
	// Tags are nil if Neutron does not support them.
	Tags []string `json:"tags"`
	// PortID is the port that it points to; "" for none.
	PortID string `json:"port_id"`
}

// SecurityGroup opens the nodes' ports for one Service.
type SecurityGroup struct {
	// ID is empty in a desired group.
	ID          string
	Name        string
	Description string
	// Tags are nil in an observed group if Neutron does not support them.
	Tags  []string
	Rules []Rule
}

// Rule admits traffic to the ports with the security group.
type Rule struct {
	// ID is empty in a desired rule.
	ID string
	// Direction is ingress or egress, EtherType IPv4 or IPv6, Protocol tcp, udp or sctp: always in
	// lower case.
	Direction, EtherType, Protocol string
	// PortMin and PortMax are 0 for all ports.
	PortMin, PortMax int
	// RemotePrefix is a CIDR without host bits; "" for all addresses. A rule for the members of a
	// group has neither, and equals no desired rule.
	RemotePrefix string
}

// Same reports whether two rules admit the same traffic.
func (r Rule) Same(other Rule) bool {
	r.ID, other.ID = "", ""
	return r == other
}

// NodePort is a Neutron port of a server.
type NodePort struct {
	ID string
	// ServerID is "" for a port that was created before its server and has outlived it.
	ServerID string
	// Addresses are the fixed addresses.
	Addresses      []Address
	SecurityGroups []string
	// PortSecurity is false if Neutron admits all traffic, and refuses security groups.
	PortSecurity bool
	// Revision is Neutron's revision number, which a change must name; -1 if Neutron has none.
	Revision int
}

// Address is a fixed address of a port.
type Address struct {
	SubnetID string
	IP       string
}

// Subnet holds the fields of a subnet that load balancers need.
type Subnet struct {
	ID        string
	Name      string
	NetworkID string
	CIDR      string
	Tags      []string
	// IPv6 is false for IPv4.
	IPv6 bool
}

// WantedFloatingIP is the desired floating IP of a load balancer. An existing one stays, unless the
// Service requests another address.
type WantedFloatingIP struct {
	// NetworkID is the network of a new floating IP. Empty: only an existing one, or the requested
	// address, can be used.
	NetworkID string
	// SubnetIDs are tried in this order. Empty: Neutron chooses.
	SubnetIDs []string
	// Address is the requested address; "" for any.
	Address string
	// Description and Tags are set on a new one.
	Description string
	Tags        []string
}
