package plan

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Observed is a Service's load balancer as it exists, with what belongs to it.
type Observed struct {
	// LoadBalancer may be nil.
	LoadBalancer *octavia.LoadBalancer
	// Role is the Service's part in it.
	Role Role
	// NeverServed: the load balancer failed during its creation, so no client can have used it.
	NeverServed bool
	// Listeners and Pools are all of the load balancer's, whoever made them.
	Listeners []octavia.Listener
	Pools     []octavia.Pool
	// FloatingIPs are those of the VIP port, those tagged as the Service's, and the one with the
	// requested address.
	FloatingIPs []neutron.FloatingIP
	// SecurityGroup may be nil.
	SecurityGroup *neutron.SecurityGroup
	// NodePorts are those of the backends and those that bear the security group; nil if there is
	// nothing to do with security groups.
	NodePorts []neutron.NodePort
}

// Role is a Service's part in a load balancer.
type Role string

const (
	// Owner: the load balancer was made for the Service.
	Owner Role = "owner"
	// Guest: it was made for another Service, or by a user, and this Service has listeners in it.
	Guest Role = "guest"
)

// Pool returns the one with the id; nil for none.
func (o *Observed) Pool(id string) *octavia.Pool {
	for i := range o.Pools {
		if o.Pools[i].ID == id {
			return &o.Pools[i]
		}
	}
	return nil
}
