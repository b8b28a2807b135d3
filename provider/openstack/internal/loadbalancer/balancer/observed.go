package balancer

// Observed is what there is of a Service's load balancer, and of what belongs to it.
type Observed struct {
	// LoadBalancer may be nil.
	LoadBalancer *LoadBalancer
	// Role is the Service's part in it.
	Role Role
	// OtherServices are the names or UIDs in tags of the other Services that share it.
	OtherServices []string
	// NeverServed: the load balancer failed during its creation, so no client can have used it.
	NeverServed bool
	// Listeners and Pools are all of the load balancer's, whoever made them.
	Listeners []Listener
	Pools     []Pool
	// FloatingIPs are those of the VIP port, those tagged as the Service's, and the one with the
	// requested address.
	FloatingIPs []FloatingIP
	// SecurityGroup may be nil.
	SecurityGroup *SecurityGroup
	// NodePorts are those of the backends and those that bear the security group; nil if there is
	// nothing to do with security groups.
	NodePorts []NodePort
}

// Role is a Service's part in a load balancer.
type Role string

const (
	// Owner: the load balancer was made for the Service.
	Owner Role = "owner"
	// Guest: it was made for another Service, or by a user, and this Service has listeners in it.
	Guest Role = "guest"
)

// Contents are the listeners and pools of a load balancer, whoever created them.
type Contents struct {
	Listeners []Listener
	Pools     []Pool
}

// Listener returns the one with the id; nil for none.
func (o *Observed) Listener(id string) *Listener {
	for i := range o.Listeners {
		if o.Listeners[i].ID == id {
			return &o.Listeners[i]
		}
	}
	return nil
}

// Pool returns the one with the id; nil for none.
func (o *Observed) Pool(id string) *Pool {
	for i := range o.Pools {
		if o.Pools[i].ID == id {
			return &o.Pools[i]
		}
	}
	return nil
}
