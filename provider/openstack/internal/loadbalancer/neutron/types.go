package neutron

// FloatingIP is an address of an external network that leads to a port.
type FloatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	NetworkID   string `json:"floating_network_id"`
	Description string `json:"description"`
	// Tags are nil if Neutron knows none.
	Tags []string `json:"tags"`
	// PortID is the port that it leads to; "" for none.
	PortID string `json:"port_id"`
}

// SecurityGroup is what opens the nodes' ports for one Service.
type SecurityGroup struct {
	// ID is empty in one that should be.
	ID          string
	Name        string
	Description string
	// Tags are nil in one that is if Neutron knows none.
	Tags  []string
	Rules []Rule
}

// Rule lets something through to who has the security group.
type Rule struct {
	// ID is empty in one that should be.
	ID string
	// Direction is ingress or egress, EtherType IPv4 or IPv6, Protocol tcp, udp or sctp: in lower
	// case, whatever Neutron says.
	Direction, EtherType, Protocol string
	// PortMin and PortMax are 0 for all ports.
	PortMin, PortMax int
	// RemotePrefix is a CIDR without host bits; "" for all addresses. A rule for the members of a
	// group has neither, and equals no desired rule.
	RemotePrefix string
}

// Same tells whether two rules let the same through.
func (r Rule) Same(other Rule) bool {
	r.ID, other.ID = "", ""
	return r == other
}

// NodePort is a port of Neutron's that belongs to a server.
type NodePort struct {
	ID string
	// ServerID is "" for a port that was made before its server, and is left of it.
	ServerID string
	// Addresses are the fixed ones.
	Addresses      []Address
	SecurityGroups []string
	// PortSecurity is false if Neutron lets everything through, and refuses security groups.
	PortSecurity bool
	// Revision is Neutron's, to be named when the port is changed; -1 if Neutron counts none.
	Revision int
}

// Address is a fixed address of a port.
type Address struct {
	SubnetID string
	IP       string
}

// Subnet is a subnet as far as load balancers need it.
type Subnet struct {
	ID        string
	Name      string
	NetworkID string
	CIDR      string
	Tags      []string
	// IPv6 is false for IPv4.
	IPv6 bool
}

// WantedFloatingIP is the floating IP that a load balancer should have. An existing one stays,
// unless the Service requests another address.
type WantedFloatingIP struct {
	// NetworkID is where a new one is created. Empty: only an existing one, or the requested
	// address, can be used.
	NetworkID string
	// SubnetIDs are tried in this order. Empty: Neutron chooses.
	SubnetIDs []string
	// Address is the one asked for; "" for any.
	Address string
	// Description and Tags are of one that is made.
	Description string
	Tags        []string
}
