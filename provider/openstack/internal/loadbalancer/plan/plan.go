// Package plan compares what should be with what is, and tells the steps from one to the other, in order.
package plan

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
)

// Plan is what is to be done, in this order. Later steps assume the earlier ones.
type Plan struct {
	Steps []Step
	// Notices are what cannot be done, or is left as it is.
	Notices []Notice
}

// Notice is something that cannot be changed, or is in the way.
type Notice struct {
	// Reason is a word in CamelCase.
	Reason  string
	Message string
	// Blocks: the Service is not as it should be; it is looked at again later.
	Blocks bool
}

// Step is one change, by one request (but where its doc comment says more). Its String is for people.
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

// The steps.
type (
	// CreateLoadBalancer makes a load balancer with all its ports, unless Bare.
	CreateLoadBalancer struct {
		LoadBalancer balancer.LoadBalancer
		Ports        []balancer.Port
		// Bare: the ports are made by later steps.
		Bare bool
	}
	// UpdateLoadBalancer changes what is not nil.
	UpdateLoadBalancer struct {
		ID                string
		Name, Description *string
		Tags              *[]string
		// Was is what is changed, for people.
		Was string
	}
	// DeleteLoadBalancer also deletes its children if Cascade.
	DeleteLoadBalancer struct {
		ID      string
		Name    string
		Cascade bool
		// Why is a clause for people.
		Why string
	}
	// FailoverLoadBalancer has Octavia build it anew behind its address. By default only administrators may.
	FailoverLoadBalancer struct{ ID, Name string }

	// CreateListener makes a listener whose default pool is Pool; none if that is the zero value.
	CreateListener struct {
		LoadBalancer Ref
		Listener     balancer.Listener
		Pool         Ref
	}
	// UpdateListener sends all that can be changed of the listener.
	UpdateListener struct {
		ID       string
		Listener balancer.Listener
		// Pool is the default pool if not the zero value.
		Pool Ref
		// Changes are for people, such as "allowed_cidrs [10.0.0.0/8] -> none".
		Changes []string
	}
	DeleteListener struct{ ID, Name, Why string }

	// CreatePool makes a pool, with its monitor and members unless the provider wants one at a time.
	CreatePool struct {
		LoadBalancer Ref
		// Listener is the one whose default pool it becomes; the zero value for none.
		Listener Ref
		Pool     balancer.Pool
		// Bare: monitor and members are made by later steps.
		Bare bool
	}
	UpdatePool struct {
		ID      string
		Pool    balancer.Pool
		Changes []string
	}
	DeletePool struct{ ID, Name, Why string }

	CreateMonitor struct {
		Pool    Ref
		Monitor balancer.Monitor
	}
	UpdateMonitor struct {
		ID      string
		Monitor balancer.Monitor
		Changes []string
	}
	DeleteMonitor struct{ ID, Name, Why string }

	// SetMembers replaces all members of a pool.
	SetMembers struct {
		Pool     Ref
		PoolName string
		Members  []balancer.Member
		Changes  []string
	}
	// CreateMember, UpdateMember and DeleteMember are for providers that change members one by one.
	CreateMember struct {
		Pool     Ref
		PoolName string
		Member   balancer.Member
	}
	UpdateMember struct {
		PoolID, PoolName, ID string
		Member               balancer.Member
		Changes              []string
	}
	DeleteMember struct{ PoolID, PoolName, ID, Name, Why string }
)

// Steps with Neutron. They need not wait for the load balancer.
type (
	// CreateFloatingIP makes a floating IP for the load balancer's VIP port, and tags it: two requests. If Neutron refuses a subnet because
	// it has no address left the next one is tried.
	CreateFloatingIP struct {
		LoadBalancer Ref
		Wanted       balancer.WantedFloatingIP
	}
	// AttachFloatingIP lets an existing one lead to the load balancer's VIP port.
	AttachFloatingIP struct {
		LoadBalancer Ref
		ID, Address  string
	}
	DetachFloatingIP struct{ ID, Address, Why string }
	DeleteFloatingIP struct{ ID, Address, Why string }
	// TagFloatingIP replaces its tags.
	TagFloatingIP struct {
		ID, Address string
		Tags        []string
	}

	// CreateSecurityGroup makes the group, without the rules that Neutron puts into a new one, and tags it.
	CreateSecurityGroup struct{ Group balancer.SecurityGroup }
	TagSecurityGroup    struct {
		ID, Name string
		Tags     []string
	}
	CreateRule struct {
		Group Ref
		Rule  balancer.Rule
	}
	DeleteRule struct {
		ID   string
		Rule balancer.Rule
	}
	// AddGroup and RemoveGroup change the groups of a node's port, as of the revision that was seen.
	AddGroup struct {
		Group Ref
		Port  balancer.NodePort
		Node  string
	}
	RemoveGroup struct {
		GroupID, GroupName string
		Port               balancer.NodePort
		Node, Why          string
	}
	DeleteSecurityGroup struct{ ID, Name, Why string }
)

// LoadBalancerRef is what an earlier CreateLoadBalancer makes; GroupRef what CreateSecurityGroup makes. A listener or pool that is
// made is referred to by its name.
var (
	LoadBalancerRef = Ref{Made: "load balancer"}
	GroupRef        = Ref{Made: "security group"}
)

// Change tells how to make what is what should be. It makes no plan for a load balancer that is PENDING: the caller waits first.
func Change(want balancer.Desired, is balancer.Observed) Plan { panic("not written yet") }

// Removal tells how to remove all that belongs to the Service, and nothing else. keep: its floating IP is only detached. Features is nil
// if they could not be learned: then nothing is deleted with its children.
func Removal(of balancer.Identity, is balancer.Observed, options RemovalOptions) Plan {
	panic("not written yet")
}

// RemovalOptions tell how to remove.
type RemovalOptions struct {
	KeepFloatingIP, Cascade bool
}
