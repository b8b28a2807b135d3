package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Pods are the members of a load balancer that forwards to the endpoints of a Service, instead of
// the node ports. NodePorts and externalTrafficPolicy then have no meaning: the monitor checks the
// port of the pod.
type Pods struct {
	// Endpoints are the EndpointSlices of the Service.
	Endpoints []*discoveryv1.EndpointSlice
	// Ranges are the ranges of pod addresses that the load balancer reaches. An endpoint outside of
	// them is a member only at an address of its node (hostNetwork): a user who writes
	// EndpointSlices must not direct a load balancer to any address of the cloud.
	Ranges []netip.Prefix
	// RouterID is the router with the route controller's routes to the podCIDRs in Ranges. Pods of
	// a node without a route are not members. "": the operator declares that the load balancers'
	// router leads to Ranges.
	RouterID string
}

// ReachedIn reports whether pods of a family can be members.
func (p *Pods) ReachedIn(family v1.IPFamily) bool {
	return slices.ContainsFunc(p.Ranges,
		func(r netip.Prefix) bool { return familyOf(r.Addr()) == family })
}

// endpoints are the endpoints at a port of the Service, or at all of them.
type endpoints struct {
	// members are those that the load balancer forwards to, by address, if only open connections.
	members []members.Endpoint
	// hasUnreached: others have an address that the load balancer must not forward to.
	hasUnreached bool
	// hasElsewhere: others are on nodes that may not be members, or to which no route leads.
	hasElsewhere bool
}

// ReachesNoPod reports whether pods serve the Service, and none of them can be a member.
func (in Input) ReachesNoPod() bool {
	b := &builder{decision: decision{Input: in, families: familiesOf(in.Service)}}
	all := b.allEndpoints()
	return len(all.members) == 0 && (all.hasUnreached || all.hasElsewhere)
}

// allEndpoints returns the endpoints at all ports.
func (b *builder) allEndpoints() (all endpoints) {
	for _, port := range b.Service.Spec.Ports {
		at := b.endpointsAt(port)
		all.members = append(all.members, at.members...)
		all.hasUnreached = all.hasUnreached || at.hasUnreached
		all.hasElsewhere = all.hasElsewhere || at.hasElsewhere
	}
	return all
}

// endpointsAt chooses the members at a port. An endpoint that names no node is chosen by its
// address alone.
func (b *builder) endpointsAt(port v1.ServicePort) (at endpoints) {
	hosts := b.hosts()
	mayBeMember := func(each members.Endpoint) bool {
		host, isHost := hosts[each.Node]
		switch {
		case !isHost && each.Node != "",
			b.Pods.RouterID != "" && isHost && members.LacksRoute(host.Node) &&
				!isAddressOf(host.Node, each.Address):
			at.hasElsewhere = true
			return false
		case !b.reaches(each, host.Node):
			at.hasUnreached = true
			return false
		}
		return true
	}
	for _, family := range b.memberFamilies() {
		at.members = append(at.members,
			members.Endpoints(b.Pods.Endpoints, port, family, mayBeMember)...)
	}
	return at
}

// hosts returns the nodes whose pods may be members, by name.
func (b *builder) hosts() map[string]Node {
	hosts := map[string]Node{}
	for _, node := range b.Nodes {
		if node.Node != nil && node.Holder == "" && b.Settings.NodeSelector.Matches(node.Labels) {
			hosts[node.Name] = node
		}
	}
	return hosts
}

// hostBackends returns the hosts by name, at each of their InternalIPs: one of them is the next hop
// of the route to their pods, and pods in the host's network have one. A node without InternalIPs
// has no route. Pods on a draining node serve until they end.
func (b *builder) hostBackends() []Backend {
	var found []Backend
	for name, host := range b.hosts() {
		for _, family := range b.nodeFamilies() {
			all := reachableOfKind(host.Node, family, v1.NodeInternalIP)
			if len(all) == 0 {
				all = reachableOfKind(host.Node, family, v1.NodeExternalIP)
			}
			for _, address := range all {
				found = append(found,
					Backend{Node: name, Address: address, ServerID: serverID(host.Node)})
			}
		}
	}
	slices.SortFunc(found, func(x, y Backend) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Address, y.Address))
	})
	return found
}

// reaches reports whether the load balancer may forward to an endpoint: its address is in a range
// of pods, or one of its host, as those of pods in the host's network are. host is nil if it is
// unknown.
func (b *builder) reaches(endpoint members.Endpoint, host *v1.Node) bool {
	if !isReachable(endpoint.Address) {
		return false
	}
	return b.isInRange(endpoint, host) || host != nil && isAddressOf(host, endpoint.Address)
}

func isAddressOf(node *v1.Node, address netip.Addr) bool {
	return slices.ContainsFunc(reachableAddresses(node, familyOf(address)),
		func(text string) bool { return SameAddress(text, address.String()) })
}

// isInRange reports whether an address is in a range of pods. The route controller writes routes
// only to the podCIDRs of a node, and a network plugin may give its pods other addresses.
func (b *builder) isInRange(endpoint members.Endpoint, host *v1.Node) bool {
	contains := func(r netip.Prefix) bool { return r.Contains(endpoint.Address) }
	return slices.ContainsFunc(b.Pods.Ranges, contains) &&
		(b.Pods.RouterID == "" || host == nil ||
			slices.ContainsFunc(host.Spec.PodCIDRs, func(cidr string) bool {
				r, err := netip.ParsePrefix(cidr)
				return err == nil && contains(r)
			}))
}

// isUnverified reports whether it is unknown that the load balancer may forward to an endpoint: its
// host has an unknown server, of which it has the address, or which may be in another region.
func (b *builder) isUnverified(endpoint members.Endpoint, host Node) bool {
	return host.Unplaced || host.Unverified && !b.isInRange(endpoint, host.Node)
}

// pods returns the members at a port. A draining endpoint gets no new connections: it is a member
// of weight 0, or none if the provider has no weights. Its connections go on either way.
func (b *builder) pods(port v1.ServicePort) []octavia.Member {
	found, hosts := b.endpointsAt(port).members, b.hosts()
	all := make([]octavia.Member, 0, len(found))
	for _, each := range found {
		if each.Draining && !b.Features.Weights {
			continue
		}
		if b.isUnverified(each, hosts[each.Node]) {
			b.addUnverified(each.Address.String(), each.Node)
		}
		m := octavia.Member{
			Name:    cmp.Or(each.Node, each.Address.String()),
			Address: each.Address.String(), Port: int(each.Port),
			SubnetID: b.memberPlace(familyOf(each.Address)).ID, Weight: 1,
		}
		if b.Features.Serial {
			m.Name = MemberName(m.Name, m.Address, m.Port)
		}
		if each.Draining {
			m.Weight = 0
		}
		all = append(all, m)
	}
	return all
}

// podRules opens the ports of the pods at the nodes' ports. A pod that is not ready keeps its port
// open: its connections go on.
func (b *builder) podRules(port v1.ServicePort, sources []string) (rules []neutron.Rule) {
	hosts := b.hosts()
	isReached := func(each members.Endpoint) bool {
		host, isHost := hosts[each.Node]
		return (isHost || each.Node == "") && b.reaches(each, host.Node)
	}
	for _, family := range b.memberFamilies() {
		for _, number := range members.Ports(b.Pods.Endpoints, port, family, isReached) {
			for _, source := range sources {
				rules = append(rules,
					rule(strings.ToLower(transport(port)), int(number), source))
			}
		}
	}
	return unique(rules)
}

// warnLeftOut reports endpoints that are not members. The text is the same for all of them, so that
// a rollout does not lead to an event for each. Endpoints on other nodes are left out as requested,
// unless the load balancer then has no members.
func (b *builder) warnLeftOut() {
	if b.Pods == nil {
		return
	}
	switch all := b.allEndpoints(); {
	case all.hasUnreached:
		b.warn(events.EndpointsLeftOut, "endpoints of the Service are not members: their "+
			"addresses are neither in a range of pods that the load balancer reaches ("+b.ranges()+
			") nor addresses of their nodes; correct "+b.rangesFrom()+", or the EndpointSlices")
	case all.hasElsewhere && len(all.members) == 0:
		b.warn(events.WithoutMembers, "the load balancer has no members: all endpoints of the "+
			"Service are on nodes that are excluded from load balancers, do not match "+
			"node-selector, are in another region, or have no route to their pods (condition "+
			"NetworkUnavailable); move pods to other nodes")
	}
}

// rangesFrom names what the ranges are from.
func (b *builder) rangesFrom() string {
	if b.Pods.RouterID != "" {
		return "--cluster-cidr, the addresses that the network plugin gives"
	}
	return "pod-ranges in cloud.conf"
}

// ranges lists the ranges of the pods in the families of the members. A cluster with a range for
// each node has many.
func (b *builder) ranges() string {
	const most = 3
	var texts []string
	for _, r := range b.Pods.Ranges {
		if slices.Contains(b.memberFamilies(), familyOf(r.Addr())) {
			texts = append(texts, r.String())
		}
	}
	slices.Sort(texts)
	text := strings.Join(texts[:min(most, len(texts))], ", ")
	switch {
	case len(texts) == 0:
		return "none of " + string(b.family())
	case len(texts) > most:
		text += " and others"
	}
	if b.Pods.RouterID != "" {
		text += ", of each node the podCIDRs"
	}
	return text
}
