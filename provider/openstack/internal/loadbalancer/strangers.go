package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// strangersAmong returns the load balancers that have the name or the tag that OCCM gives to the
// Service's, but are another cluster's: clusters of the same name have Services of the same names
// in one project. The ID in the Service's annotation proves nothing, because users write it. They
// are read only while no tag of fxccm shows which load balancer is the Service's.
func (r *reconciler) strangersAmong(
	ctx context.Context, all []octavia.LoadBalancer,
) (strangers []octavia.LoadBalancer, err error) {
	named := func(lb octavia.LoadBalancer) bool {
		return lb.ID == r.settings.LoadBalancerID && lb.Status != octavia.Deleted
	}
	isTagged := slices.ContainsFunc(all,
		func(lb octavia.LoadBalancer) bool { return isTaggedOwn(r.identity, lb) })
	if i := slices.IndexFunc(all, named); i >= 0 {
		// A load balancer that is being deleted may have lost its proof, and is only waited for.
		isOurs := all[i].Status.Gone() || !isMarkedByOCCM(r.identity, all[i])
		if !isOurs {
			isOurs, err = r.isOfThisCluster(ctx, all[i], isTagged)
		}
		if isOurs || err != nil {
			return nil, err
		}
		strangers = append(strangers, all[i])
	}
	for _, lb := range all {
		if isTagged || named(lb) || lb.Status == octavia.Deleted ||
			!isNamedAsOwn(r.identity, r.service, lb, r.found.hasTags()) {
			continue
		}
		isOurs, err := r.isOfThisCluster(ctx, lb, isTagged)
		if err != nil {
			return nil, err
		}
		if !isOurs {
			strangers = append(strangers, lb)
		}
	}
	return strangers, nil
}

// isMarkedByOCCM reports whether only OCCM's name or tag shows that a load balancer was created for
// the Service, or has its parts. Both have no UID.
func isMarkedByOCCM(id desired.Identity, lb octavia.LoadBalancer) bool {
	isOfCluster := desired.ClusterOf(lb.Tags) != "" && !desired.OnlyGuests(lb.Tags)
	return !isOfCluster && !slices.Contains(lb.Tags, id.ServiceTag()) &&
		(lb.Name == id.LegacyName() || lb.Name == id.LoadBalancerName() ||
			slices.Contains(lb.Tags, id.LoadBalancerName()))
}

// isNamedAsOwn reports whether a load balancer is the Service's by its name, its tag and its age.
func isNamedAsOwn(
	id desired.Identity, service *v1.Service, lb octavia.LoadBalancer, tagged bool,
) bool {
	return isOwn(id, lb, tagged) && (lb.Name == id.LegacyName() || isYounger(lb, service))
}

func except(all, some []octavia.LoadBalancer) []octavia.LoadBalancer {
	return slices.DeleteFunc(slices.Clone(all), func(lb octavia.LoadBalancer) bool {
		return slices.ContainsFunc(some,
			func(other octavia.LoadBalancer) bool { return other.ID == lb.ID })
	})
}

// isOfThisCluster reports whether a load balancer of OCCM is this cluster's: a node of the cluster
// is a member in a part of the Service, or the status of the Service has its address. Without
// members, its name and its age decide. Without a part of the Service, another cluster has nothing
// there that the Service could take: it joins as a guest.
//
// hasOther: the Service has another load balancer, from which the status may be. Where the operator
// requires marks, neither nodes nor status count: they come from the cluster's API server.
func (r *reconciler) isOfThisCluster(
	ctx context.Context, lb octavia.LoadBalancer, hasOther bool,
) (bool, error) {
	served := r.service.Status.LoadBalancer.Ingress
	if hasOther || r.identity.MarkRequired {
		served = nil
	}
	wasServedAt := func(address string) bool {
		return address != "" && slices.ContainsFunc(served,
			func(at v1.LoadBalancerIngress) bool { return desired.SameAddress(at.IP, address) })
	}
	if wasServedAt(lb.VIP.Address) || slices.ContainsFunc(lb.AdditionalVIPs,
		func(vip octavia.VIP) bool { return wasServedAt(vip.Address) }) {
		return true, nil
	}
	contents, err := r.of.config.Octavia.Contents(ctx, lb.ID, octavia.Full, time.Time{})
	if errors.Is(err, octavia.ErrNotFound) {
		return true, nil // it is gone
	}
	if err != nil {
		return false, err
	}
	besideGuests := isOwnBesideGuests(r.identity, lb, r.found.hasTags())
	isOwner := besideGuests || isOwn(r.identity, lb, r.found.hasTags())
	hasParts, pools := r.partsByOCCM(lb, contents, isOwner)
	if besideGuests && !hasParts && len(pools) == 0 {
		r.found.ownerLeft = true
		return true, nil
	}
	if !isOwner && (!hasParts || r.identity.MarkRequired) {
		return !hasParts, nil
	}
	isEmpty := true
	var unknown error
	for _, pool := range pools {
		for _, member := range pool.Members {
			isEmpty = false
			subnet := cmp.Or(member.SubnetID, lb.VIP.SubnetID)
			switch is, err := r.hasNodeAt(ctx, member.Address, subnet); {
			case errors.Is(err, errUnknownServer):
				unknown = err
			case is || err != nil:
				return is, err
			}
		}
	}
	isNew := isEmpty && !hasOther
	if isNew && isNamedAsOwn(r.identity, r.service, lb, r.found.hasTags()) {
		return true, nil
	}
	if len(served) > 0 {
		ips, err := r.of.config.Neutron.FloatingIPsOf(ctx,
			neutron.FloatingIPQuery{PortID: lb.VIP.PortID}, time.Time{})
		if err != nil || slices.ContainsFunc(ips,
			func(ip neutron.FloatingIP) bool { return wasServedAt(ip.Address) }) {
			return err == nil, err
		}
	}
	if unknown != nil {
		return false, r.wait(r.service.CreationTimestamp.Time, "%v, whose address a member of "+
			"load balancer %s has", unknown, lb.ID)
	}
	return false, nil
}

// partsByOCCM reports whether a load balancer has listeners that only OCCM's tag or name shows as
// the Service's, and returns their pools. The owner's are also those without tags.
func (r *reconciler) partsByOCCM(
	lb octavia.LoadBalancer, contents octavia.Contents, isOwner bool,
) (has bool, pools []octavia.Pool) {
	isServices := map[string]bool{} // by the ID of the pool
	for _, l := range contents.Listeners {
		isTold := desired.ClusterOf(l.Tags) != "" || len(desired.ServicesOf(l.Tags)) > 0
		is := !isTold && (slices.Contains(l.Tags, r.identity.LoadBalancerName()) ||
			isOwner && (len(l.Tags) == 0 || slices.Contains(l.Tags, lb.Name)))
		has = has || is
		isServices[l.PoolID] = isServices[l.PoolID] || is
	}
	for _, pool := range contents.Pools {
		// An interrupted OCCM leaves a pool without a listener.
		is, hasListener := isServices[pool.ID]
		if is || isOwner && !hasListener {
			pools = append(pools, pool)
		}
	}
	return has, pools
}

// errUnknownServer means that a node reports an address, but its server is unknown.
var errUnknownServer = errors.New("OpenStack has not shown the server of the node")

// hasNodeAt reports whether a node of the cluster has the address. A node reports its addresses
// itself: if the servers of all nodes that report it are unknown, the error is errUnknownServer.
// Networks of two clusters often have the same range. So a node does not count if its server has
// the address in another subnet than the one of the member, and the address is of that subnet too.
func (r *reconciler) hasNodeAt(ctx context.Context, text, subnetID string) (bool, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return false, nil //nolint:nilerr // no node has it
	}
	r.placeNodes(ctx)
	var unknown error
	for _, node := range slices.Concat(r.nodes, r.unplaced) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		own, isKnown := r.addresses[node.Name]
		switch isReported := desired.HasAddress(node.Status.Addresses, text); {
		case !isReported, isKnown && !desired.HasAddress(own, text):
			continue
		case r.addresses != nil && !isKnown:
			unknown = fmt.Errorf("%w %s", errUnknownServer, node.Name)
			continue
		}
		subnets, err := r.subnetsAt(ctx, node, text)
		if err != nil {
			return false, err
		}
		if len(subnets) == 0 || slices.Contains(subnets, subnetID) {
			return true, nil
		}
		subnet, err := r.of.config.Neutron.Subnet(ctx, subnetID)
		if err != nil && !errors.Is(err, neutron.ErrNotFound) {
			return false, err
		}
		cidr, err := netip.ParsePrefix(subnet.CIDR)
		if err != nil || !cidr.Contains(address) {
			return true, nil // the load balancer reaches the node by a router
		}
	}
	return false, unknown
}

// subnetsAt returns the subnets in which the node's server has the address.
func (r *reconciler) subnetsAt(
	ctx context.Context, node *v1.Node, address string,
) (subnets []string, err error) {
	server, err := instances.ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		return nil, nil //nolint:nilerr // the server is unknown
	}
	all, err := r.of.config.Neutron.ServerAddresses(ctx, []string{server.ID})
	for _, at := range all[server.ID] {
		if desired.SameAddress(at.IP, address) {
			subnets = append(subnets, at.SubnetID)
		}
	}
	return subnets, err
}

// isByName reports whether nothing but the name of the load balancer shows that it is the
// Service's. While OCCM creates it, it may get members that are another cluster's.
func (r *reconciler) isByName() bool {
	lb := r.found.balancer
	return r.found.role == plan.Owner && !isTaggedOwn(r.identity, *lb)
}

// aboutStrangers returns a warning for each load balancer of the Service's name that stays.
func (r *reconciler) aboutStrangers() (notes []events.Notice) {
	for _, lb := range r.found.strangers {
		notes = append(notes, *r.aboutStranger(lb))
	}
	return notes
}

// aboutStranger names the tags that make the load balancer the Service's. Users of the cluster
// cannot write them.
func (r *reconciler) aboutStranger(lb octavia.LoadBalancer) *events.Notice {
	advice := "if it is the Service's, add the tags " +
		strings.Join(r.identity.NetworkTags(), " and ") + " to it in Octavia"
	switch {
	case !requestsLoadBalancer(r.service):
		advice = "if it is this cluster's, delete it in Octavia"
	case lb.ID == r.settings.LoadBalancerID:
		advice = "remove the annotation " + settings.AnnotationLoadBalancerID + " or, " + advice
	}
	return events.Refuse(events.OfOtherCluster, "load balancer %s (%s) has the Service's name, "+
		"but neither a node of this cluster as a member nor the address in the Service's status: it is "+
		"taken for another cluster's of the same name and stays as it is; %s", lb.ID, lb.Name, advice)
}

// namedStranger returns the stranger that the Service's annotation names; nil for none.
func (r *reconciler) namedStranger() *octavia.LoadBalancer {
	i := slices.IndexFunc(r.found.strangers, func(lb octavia.LoadBalancer) bool {
		return lb.ID == r.settings.LoadBalancerID
	})
	if i < 0 {
		return nil
	}
	return &r.found.strangers[i]
}

// reportStrangers writes the warnings of a deletion, which is silent otherwise.
func (r *reconciler) reportStrangers() {
	if notes := r.aboutStrangers(); len(notes) > 0 {
		r.notes.notify(aboutIdentity, notes...)
	}
}
