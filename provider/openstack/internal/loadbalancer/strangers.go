package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
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

// strangersAmong returns the load balancers that have the name and the tag that OCCM gives to the
// Service's, but are another cluster's: clusters of the same name have Services of the same names
// in one project. They are read only while nothing but the name shows which load balancer is the
// Service's.
func (r *reconciler) strangersAmong(
	ctx context.Context, all []octavia.LoadBalancer,
) (strangers []octavia.LoadBalancer, err error) {
	isKnown := func(lb octavia.LoadBalancer) bool {
		return isTaggedOwn(r.identity, lb) ||
			lb.ID == r.settings.LoadBalancerID && lb.Status != octavia.Deleted
	}
	if slices.ContainsFunc(all, isKnown) {
		return nil, nil
	}
	for _, lb := range all {
		if lb.Status == octavia.Deleted ||
			!isNamedAsOwn(r.identity, r.service, lb, r.found.hasTags()) {
			continue
		}
		isOurs, err := r.isOfThisCluster(ctx, lb)
		if err != nil {
			return nil, err
		}
		if !isOurs {
			strangers = append(strangers, lb)
		}
	}
	return strangers, nil
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

// isOfThisCluster reports whether a load balancer of OCCM has no members yet, has a node of this
// cluster as a member, or has the address at which the Service was served.
func (r *reconciler) isOfThisCluster(
	ctx context.Context, lb octavia.LoadBalancer,
) (bool, error) {
	last := lastAddress(r.service)
	isLast := func(vip octavia.VIP) bool { return last != "" && vip.Address == last }
	if isLast(lb.VIP) || slices.ContainsFunc(lb.AdditionalVIPs, isLast) {
		return true, nil
	}
	contents, err := r.of.config.Octavia.Contents(ctx, lb.ID, octavia.Full, time.Time{})
	if errors.Is(err, octavia.ErrNotFound) {
		return true, nil // it is gone
	}
	if err != nil {
		return false, err
	}
	isEmpty := true
	for _, pool := range contents.Pools {
		for _, member := range pool.Members {
			isEmpty = false
			subnet := cmp.Or(member.SubnetID, lb.VIP.SubnetID)
			if is, err := r.hasNodeAt(ctx, member.Address, subnet); is || err != nil {
				return is, err
			}
		}
	}
	if isEmpty || last == "" {
		return isEmpty, nil
	}
	ips, err := r.of.config.Neutron.FloatingIPsOf(ctx,
		neutron.FloatingIPQuery{PortID: lb.VIP.PortID}, time.Time{})
	return slices.ContainsFunc(ips,
		func(ip neutron.FloatingIP) bool { return ip.Address == last }), err
}

// hasNodeAt reports whether a node of the cluster has the address. Networks of two clusters often
// have the same range. So a node does not count if its server has the address in another subnet
// than the one of the member, and the address is of that subnet too.
func (r *reconciler) hasNodeAt(ctx context.Context, text, subnetID string) (bool, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return false, nil //nolint:nilerr // no node has it
	}
	for _, node := range r.of.objects.Load().nodesOr(r.nodes) {
		if !slices.ContainsFunc(node.Status.Addresses,
			func(a v1.NodeAddress) bool { return desired.SameAddress(a.Address, text) }) {
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
	return false, nil
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
	return r.found.role == plan.Owner && r.settings.LoadBalancerID != lb.ID &&
		!isTaggedOwn(r.identity, *lb)
}

// aboutStrangers returns a warning for each load balancer of the Service's name that stays.
func (r *reconciler) aboutStrangers() (notes []events.Notice) {
	advice := "if it is the Service's, name it in annotation " + settings.AnnotationLoadBalancerID
	if !requestsLoadBalancer(r.service) {
		advice = "if it is this cluster's, delete it in Octavia"
	}
	for _, lb := range r.found.strangers {
		notes = append(notes, *events.Refuse(events.OfOtherCluster, "load balancer %s (%s) has "+
			"the name of the Service's, but no node of this cluster is a member: it is taken for "+
			"another cluster's of the same name and stays as it is; %s", lb.ID, lb.Name, advice))
	}
	return notes
}

// reportStrangers writes the warnings of a deletion, which is silent otherwise.
func (r *reconciler) reportStrangers() {
	if notes := r.aboutStrangers(); len(notes) > 0 {
		r.notes.notify(aboutIdentity, notes...)
	}
}
