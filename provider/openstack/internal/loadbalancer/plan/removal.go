package plan

import (
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// RemovalOptions control a removal.
type RemovalOptions struct {
	// KeepFloatingIP: the floating IP is only detached and disowned.
	KeepFloatingIP bool
	// Cascade: a load balancer is deleted with its children by one request.
	Cascade bool
	// Tags: the cloud is known to support tags, so an object without tags belongs to no other
	// Service. Otherwise a load balancer is deleted with its children only if each of them is
	// recognized as the Service's.
	Tags bool
	// Moves: the Service stays, and gets another load balancer.
	Moves bool
}

// Removal plans the removal of all objects of the Service, and of no others. Missing parts do not
// block the removal of the others.
func Removal(of desired.Identity, is Observed, options RemovalOptions) Plan {
	p := newPlanner(of, is)
	r := remover{planner: p, options: options}
	lb := is.LoadBalancer
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
		// The load balancer keeps the tags, and is deleted by a later reconcile when it is certain.
		r.floatingIPs(false)
		r.leave()
	default:
		r.floatingIPs(true)
		r.deleteLoadBalancer(options.Cascade, r.why())
	}
	r.removeSecurityGroup(r.why())
	return p.plan
}

type remover struct {
	*planner
	options RemovalOptions
}

func (r *remover) why() string {
	if r.options.Moves {
		return "the Service gets another load balancer"
	}
	return "the Service is gone"
}

// isLast reports whether the load balancer is deleted with the Service: it was created for the
// Service, and no other Service uses it.
func (r *remover) isLast() bool {
	return (r.role == Owner || r.isAbandoned()) && len(r.otherServices()) == 0
}

// isUncertain reports whether the load balancer has parts that may be another Service's. A user's
// additions are deleted with the load balancer.
func (r *remover) isUncertain() bool {
	others := r.others()
	if len(others) == 0 || r.options.Tags {
		return false
	}
	r.block(events.UsedByOthers,
		"load balancer %s is not deleted: Octavia may not support tags, so the owner of these "+
			"parts is unknown: %s; delete them if they are not needed", r.is.LoadBalancer.ID,
		strings.Join(others, ", "))
	return true
}

// isAbandoned reports whether the owner of the load balancer left before this Service, its last
// guest. Then it is deleted. OCCM, which decides by the name, does the same. A load balancer that a
// user or another cluster created is never deleted.
func (r *remover) isAbandoned() bool {
	lb := r.is.LoadBalancer
	strange := slices.ContainsFunc(r.is.Listeners,
		func(l octavia.Listener) bool { return !r.ownsListener(l) })
	used := slices.Contains(lb.Tags, r.id.ServiceTag()) ||
		slices.Contains(lb.Tags, r.id.LoadBalancerName())
	return r.isServices() && used && !strange && !slices.Contains(lb.Tags, lb.Name) &&
		!r.id.IsGuestCluster(lb.Tags) && !r.id.HasOtherMark(lb.Tags) && !r.id.LacksMark(lb.Tags) &&
		!slices.ContainsFunc(r.is.FloatingIPs, r.isOthers)
}

// isOthers reports whether a floating IP shows that another cluster, whose tags may have been lost,
// created the load balancer.
func (r *remover) isOthers(f neutron.FloatingIP) bool {
	return f.PortID != "" && f.PortID == r.vipPort && r.isOfOtherCluster(f.Tags)
}

// otherServices returns the other Services that a tag of the load balancer or of a listener names.
func (r *remover) otherServices() []string {
	var services []string
	for _, other := range r.others() {
		// A cluster that joins or leaves may have nothing but a tag.
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

// leave removes the Service's parts from a load balancer that stays. In ERROR no part can be
// changed.
func (r *remover) leave() {
	lb := r.is.LoadBalancer
	if lb.Status == octavia.InError {
		r.block(events.InError, "Octavia: load balancer %s (%s) is in ERROR, so nothing in it can be "+
			"deleted; fail it over in Octavia, or have its owner do so", lb.ID, lb.Name)
		return
	}
	before := len(r.plan.Steps)
	r.removeListeners(func(octavia.Listener) bool { return true }, nil, r.why())
	r.seeDeleted(r.plan.Steps[before:])
}

// seeDeleted verifies the deletions, because without the tags no later reconcile could recognize
// remains.
func (r *remover) seeDeleted(steps []Step) {
	var ids []string
	for _, step := range steps {
		if s, ok := step.(deleting); ok {
			ids = append(ids, s.deleted())
		}
	}
	if len(ids) > 0 {
		r.add(SeeDeleted{LoadBalancerID: r.is.LoadBalancer.ID, IDs: ids})
	}
}

// untag comes last, because the tags show that objects of the Service may exist.
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

// tagsWithout keeps the cluster's tags while other Services of the cluster use the load balancer.
// Services without a listener yet add the tags again.
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
		isClusters := tag == r.id.ClusterTag() || tag == r.id.GuestTag() ||
			tag == r.id.OwnerTag()
		isWrong := tag == r.id.GuestTag() && r.role == Owner
		if tag == r.id.ServiceTag() || isName && !isShared || isClusters && !staysHere || isWrong {
			continue
		}
		left = append(left, tag)
	}
	return left
}

// floatingIPs removes the floating IPs that were created for the Service, and gives back that of a
// pool. A floating IP of a load balancer that stays is kept for the remaining Services; that of a
// pool loses its marks then, and is unused when the load balancer is deleted.
func (r *remover) floatingIPs(gone bool) {
	for _, f := range r.is.FloatingIPs {
		attached := f.PortID != "" && f.PortID == r.vipPort
		own := r.ownsFloatingIP(f) || attached && gone && r.wasOwners(f)
		keeps, kept := r.options.KeepFloatingIP, r.why()+", the floating IP is kept"
		if isFromPool(f) {
			keeps, kept = true, r.why()+", the floating IP returns to its pool"
		}
		switch {
		case !own:
		case attached && !gone && r.options.Moves && !isFromPool(f):
			// It stays the others', whatever the Service requests for its next one.
			r.leaveFloatingIP(f)
		case attached && !gone && keeps:
			r.disown(f)
		case attached && !gone:
			// The floating IP serves the remaining Services.
		case f.PortID != "" && !attached:
			r.notice(false, events.FloatingIPUnavailable, movedFloatingIP, f.Address)
			r.disown(f)
		case keeps && attached:
			r.giveUp(f, kept)
		case keeps:
			r.disown(f)
		case attached || r.isTagged(f):
			r.add(deletionOf(f, r.why()))
		}
	}
}

// leaveFloatingIP removes the tag of a Service that gets another load balancer, and so another
// floating IP. The other marks stay: by them the last Service deletes the floating IP.
func (r *remover) leaveFloatingIP(f neutron.FloatingIP) {
	isService := func(tag string) bool { return tag == r.id.ServiceTag() }
	if slices.ContainsFunc(f.Tags, isService) {
		r.add(TagFloatingIP{
			ID: f.ID, Address: f.Address, Listed: unchanged(f),
			Tags: slices.DeleteFunc(slices.Clone(f.Tags), isService),
		})
	}
}

func (r *remover) isTagged(f neutron.FloatingIP) bool {
	own, _ := r.byTags(f.Tags)
	return own
}

// wasOwners reports whether a floating IP was created for the former owner of the load balancer,
// which has left: their descriptions match.
func (r *remover) wasOwners(f neutron.FloatingIP) bool {
	lb := r.is.LoadBalancer
	return r.role != Owner && !r.id.IsOthers(f.Tags) &&
		desired.ClusterOf(f.Tags) == r.id.ClusterUID &&
		f.Description == "Floating IP for "+lb.Description
}
