package plan

import (
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// RemovalOptions tell how to remove.
type RemovalOptions struct {
	// KeepFloatingIP: the floating IP is only detached and disowned.
	KeepFloatingIP bool
	// Cascade: a load balancer is deleted with its children by one request.
	Cascade bool
	// Tags: the cloud is known to have tags, so that what bears none is no other Service's. Else a
	// load balancer is only deleted with its children if each of them shows that it is the
	// Service's.
	Tags bool
}

// Removal plans the removal of all that belongs to the Service, and nothing else. Missing parts do
// not block the others.
func Removal(of desired.Identity, is Observed, options RemovalOptions) Plan {
	p := newPlanner(of, is)
	r := remover{planner: p, options: options}
	lb := is.LoadBalancer
	if lb != nil {
		r.vipPort = lb.VIP.PortID
	}
	switch {
	case lb == nil || lb.Status.Gone():
		r.floatingIPs(true)
	case p.isForeign():
		p.refuseForeign()
		return p.plan
	case !r.isLast():
		r.floatingIPs(false)
		r.leave()
		r.untag()
	case r.isUncertain():
		// It stays the Service's, to be deleted when it is certain.
		r.floatingIPs(false)
		r.leave()
	default:
		r.floatingIPs(true)
		r.deleteLoadBalancer(options.Cascade, why)
	}
	r.removeSecurityGroup(why)
	return p.plan
}

const why = "the Service is gone"

type remover struct {
	*planner
	options RemovalOptions
	// vipPort is "" if it is not known.
	vipPort string
}

// isLast tells whether the load balancer goes with the Service: it was made for it, and no other
// Service uses it.
func (r *remover) isLast() bool {
	return (r.role == Owner || r.isAbandoned()) && len(r.otherServices()) == 0
}

// isUncertain tells whether the load balancer has parts that may be another Service's. A user's
// additions are deleted with the load balancer.
func (r *remover) isUncertain() bool {
	others := r.others()
	if len(others) == 0 || r.options.Tags {
		return false
	}
	r.block(events.UsedByOthers,
		"load balancer %s is not deleted: Octavia may not support tags, so the owner of these parts is unknown: %s", r.is.LoadBalancer.ID, strings.Join(others, ", "))
	return true
}

// isAbandoned: the owner of the load balancer left before this Service, its last guest. Then it is
// deleted, as OCCM does, which goes by the name. A load balancer that a user or another cluster
// created is never deleted.
func (r *remover) isAbandoned() bool {
	lb := r.is.LoadBalancer
	strange := slices.ContainsFunc(r.is.Listeners,
		func(l octavia.Listener) bool { return !r.ownsListener(l) })
	used := slices.Contains(lb.Tags, r.id.ServiceTag()) ||
		slices.Contains(lb.Tags, r.id.LoadBalancerName())
	return r.isServices() && used && !strange && !slices.Contains(lb.Tags, lb.Name) &&
		!r.id.IsGuestCluster(lb.Tags) && !slices.ContainsFunc(r.is.FloatingIPs, r.isOthers)
}

// isOthers tells whether a floating IP shows that another cluster created the load balancer, whose
// tags may have been lost.
func (r *remover) isOthers(f neutron.FloatingIP) bool {
	return f.PortID != "" && f.PortID == r.vipPort && r.isOfOtherCluster(f.Tags)
}

// otherServices are those that bear witness to themselves by a tag: of the load balancer, or of a
// listener.
func (r *remover) otherServices() []string {
	var services []string
	for _, other := range r.others() {
		// A cluster that joins or leaves may have a tag alone.
		if !strings.HasPrefix(other, "listener ") && !strings.HasPrefix(other, "pool ") {
			services = append(services, other)
		}
	}
	for _, l := range r.is.Listeners {
		if !r.ownsListener(l) {
			services = append(services, r.othersIn(l.Tags)...)
		}
	}
	return services
}

// leave removes what is the Service's from a load balancer that stays. In ERROR nothing in it can
// be changed.
func (r *remover) leave() {
	lb := r.is.LoadBalancer
	if lb.Status == octavia.InError {
		r.block(events.InError, "load balancer %s (%s) is in ERROR; nothing in it can be deleted",
			lb.ID, lb.Name)
		return
	}
	before := len(r.plan.Steps)
	r.removeListeners(func(octavia.Listener) bool { return true }, nil, why)
	r.seeDeleted(r.plan.Steps[before:])
}

// seeDeleted verifies the deletions, because without the tags no later reconcile could recognize
// remains.
func (r *remover) seeDeleted(steps []Step) {
	var ids []string
	for _, step := range steps {
		switch s := step.(type) {
		case DeleteListener:
			ids = append(ids, s.ID)
		case DeletePool:
			ids = append(ids, s.ID)
		}
	}
	if len(ids) > 0 {
		r.add(SeeDeleted{LoadBalancerID: r.is.LoadBalancer.ID, IDs: ids})
	}
}

// untag comes last: the tags are what tells that there may be something of the Service's.
func (r *remover) untag() {
	lb := r.is.LoadBalancer
	tags := r.tagsWithout(lb.Tags)
	if len(tags) == len(lb.Tags) || lb.Status == octavia.InError {
		return
	}
	var changes []string
	for _, tag := range lb.Tags {
		if !slices.Contains(tags, tag) {
			changes = append(changes, tagChange+tag+" removed")
		}
	}
	r.add(UpdateLoadBalancer{ID: lb.ID, Name: lb.Name, Tags: tags, Changes: changes})
}

// tagsWithout leaves the cluster's tags while other Services of it are there. Services whose
// listeners are not there yet add them again.
func (r *remover) tagsWithout(tags []string) []string {
	others := slices.DeleteFunc(desired.ServicesOf(tags),
		func(uid string) bool { return uid == r.id.UID })
	staysHere := len(others) > 0 && len(r.id.OtherClusters(tags)) == 0
	isShared := false
	for _, l := range r.is.Listeners {
		if !r.ownsListener(l) {
			staysHere = staysHere || slices.Contains(l.Tags, r.id.ClusterTag())
			isShared = isShared || slices.Contains(l.Tags, r.id.LoadBalancerName())
		}
	}
	left := []string{}
	for _, tag := range tags {
		isName := tag == r.id.LoadBalancerName() || r.role == Owner && tag == r.loadBalancer
		isClusters := tag == r.id.ClusterTag() || tag == r.id.GuestTag()
		isWrong := tag == r.id.GuestTag() && r.role == Owner
		if tag == r.id.ServiceTag() || isName && !isShared || isClusters && !staysHere || isWrong {
			continue
		}
		left = append(left, tag)
	}
	return left
}

// floatingIPs removes those that were made for the Service. One of a load balancer that stays
// serves who is left there.
func (r *remover) floatingIPs(gone bool) {
	for _, f := range r.is.FloatingIPs {
		attached := f.PortID != "" && f.PortID == r.vipPort
		own := r.ownsFloatingIP(f) || attached && gone && r.wasOwners(f)
		switch {
		case !own:
		case attached && !gone && r.options.KeepFloatingIP:
			r.disown(f)
		case attached && !gone:
			// It serves the remaining Services.
		case f.PortID != "" && !attached:
			r.notice(false, events.FloatingIPUnavailable, movedFloatingIP, f.Address, f.PortID)
			r.disown(f)
		case r.options.KeepFloatingIP:
			if attached {
				r.add(DetachFloatingIP{f.ID, f.Address, why + ", the floating IP is kept"})
			}
			r.disown(f)
		default:
			r.add(DeleteFloatingIP{f.ID, f.Address, why})
		}
	}
}

// wasOwners tells whether a floating IP was made for the Service that the load balancer was made
// for, and has left: their descriptions agree.
func (r *remover) wasOwners(f neutron.FloatingIP) bool {
	lb := r.is.LoadBalancer
	return r.role != Owner && desired.ClusterOf(f.Tags) == r.id.ClusterUID &&
		f.Description == "Floating IP for "+lb.Description
}
