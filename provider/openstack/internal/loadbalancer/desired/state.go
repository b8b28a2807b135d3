package desired

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Desired is what a Service's load balancer, and what belongs to it, should be. It depends on
// nothing but the Service, the nodes, the settings and what was looked up for them; two equal ones
// want the same.
type State struct {
	Identity Identity
	// LoadBalancer is created if the Service has none, and compared if it is an owner.
	LoadBalancer octavia.LoadBalancer
	// Ports are in the order of the Service's.
	Ports []octavia.Port
	// FloatingIP is nil if there should be none.
	FloatingIP *neutron.WantedFloatingIP
	// KeepFloatingIP: a floating IP that is not wanted any more is detached instead of deleted.
	KeepFloatingIP bool
	// SecurityGroup is nil if there should be none.
	SecurityGroup *neutron.SecurityGroup
	// Backends are the nodes that are members of any port, draining ones too: their ports bear the
	// security group.
	Backends []Backend
	Features Features
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool
	// Cascade: the load balancer is deleted with its children by one request.
	Cascade bool
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
