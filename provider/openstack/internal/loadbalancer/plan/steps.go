package plan

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Step is one change, with one request unless its doc comment states otherwise. Its String is for
// people: one line that begins with a verb.
type Step interface {
	String() string
}

// Ref names an object that exists, or that an earlier step of the plan creates.
type Ref struct {
	// ID identifies an existing object.
	ID string
	// Made is the name of an object that an earlier step creates; it is used if ID is empty.
	Made string
}

// LoadBalancerRef refers to the load balancer of an earlier CreateLoadBalancer. A Ref to a new
// listener or pool holds its name.
func LoadBalancerRef() Ref { return Ref{Made: "load balancer"} }

// GroupRef refers to the security group of an earlier CreateSecurityGroup.
func GroupRef() Ref { return Ref{Made: "security group"} }

// Steps with Octavia. Each waits until the load balancer has finished the previous one.
type (
	// CreateLoadBalancer creates a load balancer with all its ports, unless Bare. If the plan has
	// deleted one before, the step waits until that is gone: the new one may take over its address.
	CreateLoadBalancer struct {
		LoadBalancer octavia.LoadBalancer
		Ports        []octavia.Port
		// Bare: later steps create the ports.
		Bare bool
	}
	// UpdateLoadBalancer replaces its tags. Its other fields never change.
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
	// FailoverLoadBalancer makes Octavia rebuild it behind its address. By default only
	// administrators may.
	FailoverLoadBalancer struct{ ID, Name string }

	// CreateListener creates a listener with the default pool Pool; none if that is the zero value.
	CreateListener struct {
		LoadBalancer Ref
		Listener     octavia.Listener
		Pool         Ref
	}
	// UpdateListener sends all mutable fields of the listener.
	UpdateListener struct {
		ID       string
		Listener octavia.Listener
		// Pool is the new default pool; the zero value keeps the current one.
		Pool Ref
		// Changes are for people, such as "allowed_cidrs [10.0.0.0/8] -> none".
		Changes []string
	}
	DeleteListener struct{ ID, Name, Why string }

	// CreatePool creates an empty pool: Octavia accepts members and monitor together with the pool
	// only as part of a whole load balancer.
	CreatePool struct {
		LoadBalancer Ref
		// Listener is the one whose default pool it becomes; the zero value for none.
		Listener Ref
		Pool     octavia.Pool
	}
	// UpdatePool sends all mutable fields of the pool itself, its tags unless they are nil. It
	// repairs a pool in ERROR, whose members and monitor cannot be changed before.
	UpdatePool struct {
		ID      string
		Pool    octavia.Pool
		Changes []string
	}
	// DeletePool also deletes its members and its monitor. A listener with this default pool then
	// has none.
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
	// CreateMember, UpdateMember and DeleteMember are for single differences, and for providers
	// that change members one by one.
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

	// SeeDeleted changes nothing. It reads the parts of the load balancer, and fails if a deleted
	// one still exists: a part that Octavia could not delete is in ERROR, although the load
	// balancer is ACTIVE.
	SeeDeleted struct {
		LoadBalancerID string
		// IDs are the IDs of listeners and pools.
		IDs []string
	}
)

// These are the steps with Neutron. They need not wait for the load balancer.
type (
	// CreateFloatingIP creates a floating IP for the load balancer's VIP port, and tags it: two
	// requests. If Neutron refuses a subnet without a free address, the next one is tried.
	CreateFloatingIP struct {
		// LoadBalancer is the zero value for a floating IP that a later AttachFloatingIP attaches.
		LoadBalancer Ref
		Wanted       neutron.WantedFloatingIP
	}
	// AttachFloatingIP points an existing floating IP to the load balancer's VIP port.
	AttachFloatingIP struct {
		LoadBalancer Ref
		// ID is empty for the floating IP that an earlier CreateFloatingIP of the plan has created.
		ID, Address string
	}
	DetachFloatingIP struct{ ID, Address, Why string }
	DeleteFloatingIP struct{ ID, Address, Why string }
	// TagFloatingIP replaces its tags.
	TagFloatingIP struct {
		ID, Address string
		Tags        []string
	}

	// CreateSecurityGroup creates the group, deletes Neutron's default rules, and tags it. Later
	// steps create its rules.
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
	// AddGroup and RemoveGroup change the groups of a node's port, based on the observed revision.
	AddGroup struct {
		Group Ref
		Port  neutron.NodePort
		Node  string
	}
	RemoveGroup struct {
		GroupID, GroupName string
		Port               neutron.NodePort
		// Node is "" if it is unknown.
		Node, Why string
	}
	DeleteSecurityGroup struct{ ID, Name, Why string }
)
