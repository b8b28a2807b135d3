package plan

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Observed is the existing load balancer of a Service, with its related objects.
type Observed struct {
	// LoadBalancer may be nil.
	LoadBalancer *octavia.LoadBalancer
	// Role is the Service's part in it.
	Role Role
	// NeverServed: the load balancer failed during its creation, so no client can have used it.
	NeverServed bool
	// Listeners and Pools are all parts of the load balancer, whoever created them.
	Listeners []octavia.Listener
	Pools     []octavia.Pool
	// FloatingIPs are the floating IPs of the VIP port, those tagged as the Service's, and the one
	// with the requested address.
	FloatingIPs []neutron.FloatingIP
	// SecurityGroup may be nil.
	SecurityGroup *neutron.SecurityGroup
	// NodePorts are the ports of the backends and those with the security group; nil if security
	// groups need no change.
	NodePorts []neutron.NodePort
}

// Role is a Service's part in a load balancer.
type Role string

const (
	// Owner: the load balancer was created for the Service.
	Owner Role = "owner"
	// Guest: it was created for another Service, or by a user, and this Service has listeners in
	// it.
	Guest Role = "guest"
)

// Pool returns the pool with the ID; nil if it does not exist.
func (o *Observed) Pool(id string) *octavia.Pool {
	for i := range o.Pools {
		if o.Pools[i].ID == id {
			return &o.Pools[i]
		}
	}
	return nil
}
