// Package plan compares desired and observed state, and takes the steps from one to the other.
//
// Planning is a pure function: equal input gives an equal plan. A [Runner] takes the steps of a
// plan, which may end after any of them,
// and the next plan continues from the state that exists. So each step leaves only objects that are
// recognized as the Service's: a new pool has its tags, and the listener of a port is deleted after
// its pool.
//
// Parts of a load balancer with another owner stay as they are: listeners without a tag of the
// Service, pools that such listeners use, and pools of an unknown owner.
//
// The order of the steps follows from possible failures, because a run stops at the first one.
// First come steps that keep traffic flowing (members), then steps that restrict clients
// (allowed_cidrs), then deletions, which free quota, then creations. Ports of nodes are opened
// before all of them and closed after all of them, so that a member can be reached for as long as
// it is one.
package plan

import (
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Plan is a list of ordered steps. Later steps assume the earlier ones.
type Plan struct {
	Steps []Step
	// Notices report what cannot be done, or stays as it is.
	Notices []events.Notice
}

// tagChange begins the text of a tag change.
const tagChange = "tag "

// Change plans the steps from the observed to the desired state. For a load balancer that is
// PENDING it returns only a notice: the caller waits first.
func Change(want desired.State, is Observed) Plan {
	p := newPlanner(want.Identity, is)
	c := changer{planner: p, want: want}
	switch lb := is.LoadBalancer; {
	case lb == nil || lb.Status == octavia.Deleted:
		c.make()
	case p.isForeign():
		p.refuseForeign()
	case lb.Status.Pending():
		p.block(events.Pending, "load balancer %s is %s; retrying", lb.ID, lb.Status)
	case lb.Status == octavia.InError:
		c.repair()
	default:
		c.adjust()
	}
	return p.plan
}

// planner is a plan in progress.
type planner struct {
	claims
	is   Observed
	plan Plan
}

func newPlanner(id desired.Identity, is Observed) *planner {
	p := &planner{claims: claims{id: id, role: is.Role}, is: is}
	if is.LoadBalancer != nil {
		p.loadBalancer, p.vipPort = is.LoadBalancer.Name, is.LoadBalancer.VIP.PortID
	}
	return p
}

func (p *planner) add(steps ...Step) { p.plan.Steps = append(p.plan.Steps, steps...) }

func (p *planner) notice(blocks bool, reason events.Reason, format string, arguments ...any) {
	n := events.Refuse(reason, format, arguments...)
	n.Blocks = blocks
	p.plan.Notices = append(p.plan.Notices, *n)
}

// block adds a notice about the reason why the Service does not reach its desired state.
func (p *planner) block(reason events.Reason, format string, arguments ...any) {
	p.notice(true, reason, format, arguments...)
}

// isForeign reports whether the load balancer belongs to another cluster, and the Service is no
// guest in it.
func (p *planner) isForeign() bool {
	tags := p.is.LoadBalancer.Tags
	isHere := slices.Contains(tags, p.id.ClusterTag()) && !p.id.IsGuestCluster(tags)
	if isHere && p.id.HasOtherMark(tags) {
		return true
	}
	return p.role == Owner && len(p.id.OtherClusters(tags)) > 0 && !isHere &&
		!desired.OnlyGuests(tags)
}

func (p *planner) refuseForeign() {
	lb := p.is.LoadBalancer
	p.block(events.OfOtherCluster, "load balancer %s (%s) belongs to another cluster (%s); use "+
		"another one, or remove that cluster's tags if it no longer exists", lb.ID, lb.Name,
		desired.ClusterOf(lb.Tags))
}

// changer plans a change.
type changer struct {
	*planner
	want desired.State
}

// make is for a Service without a load balancer.
func (c *changer) make() {
	c.role = Owner
	c.is.LoadBalancer, c.is.Listeners, c.is.Pools = nil, nil, nil
	c.createLoadBalancer()
	// A port that the user has created exists before the load balancer, and so may its floating IP.
	c.floatingIPs(LoadBalancerRef(), c.want.LoadBalancer.VIP.PortID)
	c.openNodes()
	if c.want.Features.Serial {
		c.ports(LoadBalancerRef())
	}
	c.closeNodes()
}

// adjust is for a load balancer that can be changed.
func (c *changer) adjust() {
	if changes := c.immutable(); len(changes) > 0 {
		if c.want.Recreate && c.recreate(changes) {
			return
		}
		if !c.want.Recreate {
			c.noticeImmutable(changes)
		}
	}
	if c.isRefusedAsGuest() || !c.limitClients() {
		return
	}
	lb := c.is.LoadBalancer
	c.tagLoadBalancer()
	c.floatingIPs(Ref{ID: lb.ID}, lb.VIP.PortID)
	c.openNodes()
	c.ports(Ref{ID: lb.ID})
	c.closeNodes()
}

// repair is for a load balancer in ERROR, whose contents cannot be changed.
func (c *changer) repair() {
	lb := c.is.LoadBalancer
	if c.role != Owner {
		c.block(events.InError,
			"Octavia: shared load balancer %s (%s) is in ERROR; only its owner can repair it", lb.ID,
			lb.Name)
		return
	}
	if (c.want.Recreate || c.failedAtOnce()) && c.recreate([]string{"it is in ERROR"}) {
		return
	}
	c.floatingIPs(Ref{ID: lb.ID}, lb.VIP.PortID)
	c.openNodes()
	c.closeNodes()
	if lb.Provider == octavia.ProviderOVN {
		// ovn_octavia_provider does not support a failover.
		c.block(events.InError,
			"Octavia: the load balancer is in ERROR, and its provider %s supports no failover; %s",
			lb.Provider, howToRecreate)
		return
	}
	c.notice(false, events.InError,
		"Octavia: the load balancer is in ERROR; triggering a failover, which needs administrator rights by default; %s", howToRecreate)
	c.add(FailoverLoadBalancer{lb.ID, lb.Name})
}

// failedAtOnce reports whether the load balancer failed before any of its listeners was created, so
// that it never served a client.
func (c *changer) failedAtOnce() bool {
	if c.is.LoadBalancer.Status != octavia.InError {
		return false
	}
	ready := func(l octavia.Listener) bool { return l.Status != octavia.PendingCreate }
	return c.is.NeverServed || len(c.is.Listeners) > 0 &&
		!slices.ContainsFunc(c.is.Listeners, ready)
}

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
