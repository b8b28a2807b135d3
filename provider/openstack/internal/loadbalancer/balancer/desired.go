package balancer

// Desired is what a Service's load balancer, and what belongs to it, should be. It depends on
// nothing but the Service, the nodes, the settings and what was looked up for them; two equal ones
// want the same.
type Desired struct {
	Identity Identity
	// LoadBalancer is created if the Service has none, and compared if it is an owner.
	LoadBalancer LoadBalancer
	// Ports are in the order of the Service's.
	Ports []Port
	// FloatingIP is nil if there should be none.
	FloatingIP *WantedFloatingIP
	// KeepFloatingIP: a floating IP that is not wanted any more is detached instead of deleted.
	KeepFloatingIP bool
	// SecurityGroup is nil if there should be none.
	SecurityGroup *SecurityGroup
	// Backends are the nodes that are members of any port, draining ones too: their ports bear the
	// security group.
	Backends []Backend
	Features Features
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool
	// Cascade: the load balancer is deleted with its children by one request.
	Cascade bool
}

// Port is what a port of the Service becomes.
type Port struct {
	// Name tells people which one it is, such as "443/TCP".
	Name     string
	Listener Listener
	// Pool has its members, and its monitor.
	Pool Pool
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
	// Present: there is one, so where one would be made was not looked up.
	Present bool
}

// Backend is a node's address as the members have it.
type Backend struct {
	// Node is its name.
	Node     string
	Address  string
	SubnetID string
	// ServerID is of the node's provider ID; "" if it has none yet.
	ServerID string
}
