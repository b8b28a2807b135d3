package desired

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// State is the desired state of a Service's load balancer and related objects. It depends only on
// the Service, the nodes, the settings and the results of lookups.
type State struct {
	Identity Identity
	// LoadBalancer is created if the Service has none, and compared if the Service is the owner.
	LoadBalancer octavia.LoadBalancer
	// Ports are in the order of the Service's.
	Ports []octavia.Port
	// FloatingIP is nil if none is desired.
	FloatingIP *neutron.WantedFloatingIP
	// KeepFloatingIP: an unwanted floating IP is detached instead of deleted.
	KeepFloatingIP bool
	// SecurityGroup is nil if none is desired.
	SecurityGroup *neutron.SecurityGroup
	// Backends are the nodes that are members of any pool, even draining ones: their ports have the
	// security group.
	Backends []Backend
	Features Features
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool
	// Cascade: the load balancer is deleted with its children by one request.
	Cascade bool
}

// Backend is a node with its member address.
type Backend struct {
	// Node is the node's name.
	Node     string
	Address  string
	SubnetID string
	// ServerID comes from the node's provider ID; "" if it has none yet.
	ServerID string
}
