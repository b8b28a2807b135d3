package plan

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Step is one change, by one request (but where its doc comment says more). Its String is for
// people: one line, that begins with a verb.
type Step interface {
	String() string
}

// Ref names something that exists, or that an earlier step of the plan makes.
type Ref struct {
	// ID is of what exists.
	ID string
	// Made is the name of what an earlier step makes; it counts if ID is empty.
	Made string
}

// LoadBalancerRef is what an earlier CreateLoadBalancer makes. A listener or pool that is made is
// referred to by its name.
func LoadBalancerRef() Ref { return Ref{Made: "load balancer"} }

// GroupRef is what an earlier CreateSecurityGroup makes.
func GroupRef() Ref { return Ref{Made: "security group"} }

// Steps with Octavia. Each waits until the load balancer has finished the previous one.
type (
	// CreateLoadBalancer makes a load balancer with all its ports, unless Bare. If the plan has
	// deleted one before, that one is gone first: the new one may take over its address.
	CreateLoadBalancer struct {
		LoadBalancer octavia.LoadBalancer
		Ports        []octavia.Port
		// Bare: the ports are made by later steps.
		Bare bool
	}
	// UpdateLoadBalancer replaces its tags. Nothing else of it ever changes.
	UpdateLoadBalancer struct {
		ID, Name string
		Tags     []string
		// Changes are for people, such as "tag a added".
		Changes []string
	}
	// DeleteLoadBalancer also deletes its children if Cascade.
	DeleteLoadBalancer struct {
		ID, Name string
		Cascade  bool
		// Why is a clause for people.
		Why string
	}
	// FailoverLoadBalancer has Octavia rebuild it behind its address. By default only
	// administrators may.
	FailoverLoadBalancer struct{ ID, Name string }

	// CreateListener makes a listener whose default pool is Pool; none if that is the zero value.
	CreateListener struct {
		LoadBalancer Ref
		Listener     octavia.Listener
		Pool         Ref
	}
	// UpdateListener sends all that can be changed of the listener.
	UpdateListener struct {
		ID       string
		Listener octavia.Listener
		// Pool is the default pool if not the zero value.
		Pool Ref
		// Changes are for people, such as "allowed_cidrs [10.0.0.0/8] -> none".
		Changes []string
	}
	DeleteListener struct{ ID, Name, Why string }

	// CreatePool makes a pool with nothing in it: Octavia takes one together with its members and
	// its monitor only as part of a whole load balancer. It has Pool's tags, if there are any.
	CreatePool struct {
		LoadBalancer Ref
		// Listener is the one whose default pool it becomes; the zero value for none.
		Listener Ref
		Pool     octavia.Pool
	}
	// UpdatePool sends all that can be changed of the pool itself, its tags unless they are nil. A
	// pool in ERROR is healed by it, and until then its members and its monitor cannot be changed.
	UpdatePool struct {
		ID      string
		Pool    octavia.Pool
		Changes []string
	}
	// DeletePool deletes its members and its monitor too. A listener whose default pool it was has
	// none then.
	DeletePool struct{ ID, Name, Why string }

	CreateMonitor struct {
		Pool     Ref
		PoolName string
		Monitor  octavia.Monitor
	}
	UpdateMonitor struct {
		ID      string
		Monitor octavia.Monitor
		Changes []string
	}
	DeleteMonitor struct{ ID, Name, Why string }

	// SetMembers replaces all members of a pool.
	SetMembers struct {
		Pool     Ref
		PoolName string
		Members  []octavia.Member
		Changes  []string
	}
	// CreateMember, UpdateMember and DeleteMember are for one that is alone, and for providers that
	// change members one by one.
	CreateMember struct {
		Pool     Ref
		PoolName string
		Member   octavia.Member
	}
	UpdateMember struct {
		PoolID, PoolName, ID string
		Member               octavia.Member
		Changes              []string
	}
	DeleteMember struct{ PoolID, PoolName, ID, Name, Why string }

	// SeeDeleted changes nothing. It reads what is below the load balancer, and fails if something
	// that was deleted is there: what Octavia was asked to delete, and could not, is in ERROR, and
	// the load balancer is ACTIVE.
	SeeDeleted struct {
		LoadBalancerID string
		// IDs are those of listeners and pools.
		IDs []string
	}
)

// Steps with Neutron. They need not wait for the load balancer.
type (
	// CreateFloatingIP makes a floating IP for the load balancer's VIP port, and tags it: two
	// requests. If Neutron refuses a subnet because it has no address left the next one is tried.
	CreateFloatingIP struct {
		// LoadBalancer is the zero value for a floating IP that a later AttachFloatingIP attaches.
		LoadBalancer Ref
		Wanted       neutron.WantedFloatingIP
	}
	// AttachFloatingIP lets an existing one lead to the load balancer's VIP port.
	AttachFloatingIP struct {
		LoadBalancer Ref
		// ID is empty for the one that an earlier CreateFloatingIP of the plan has made.
		ID, Address string
	}
	DetachFloatingIP struct{ ID, Address, Why string }
	DeleteFloatingIP struct{ ID, Address, Why string }
	// TagFloatingIP replaces its tags.
	TagFloatingIP struct {
		ID, Address string
		Tags        []string
	}

	// CreateSecurityGroup makes the group, without the rules that Neutron puts into a new one, and
	// tags it. Its own rules are made by later steps.
	CreateSecurityGroup struct{ Group neutron.SecurityGroup }
	// TagSecurityGroup replaces its tags.
	TagSecurityGroup struct {
		ID, Name string
		Tags     []string
	}
	CreateRule struct {
		Group Ref
		Rule  neutron.Rule
	}
	DeleteRule struct {
		ID   string
		Rule neutron.Rule
	}
	// AddGroup and RemoveGroup change the groups of a node's port, as of the revision that was
	// seen.
	AddGroup struct {
		Group Ref
		Port  neutron.NodePort
		Node  string
	}
	RemoveGroup struct {
		GroupID, GroupName string
		Port               neutron.NodePort
		// Node is "" if it is not known any more.
		Node, Why string
	}
	DeleteSecurityGroup struct{ ID, Name, Why string }
)
