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
	// them is a member only at an address of its node (hostNetwork): whoever writes EndpointSlices
	// must not direct a load balancer to any address of the cloud.
	Ranges []netip.Prefix
}

// podsAt returns the endpoints of a port that may be members, by address.
func (b *builder) podsAt(port v1.ServicePort) (reachable, others []members.Endpoint) {
	for _, each := range members.Endpoints(b.Pods.Endpoints, port, b.family()) {
		switch {
		case each.Draining && !b.Features.Weights:
		case b.reaches(each):
			reachable = append(reachable, each)
		default:
			others = append(others, each)
		}
	}
	return reachable, others
}

// reaches reports whether the load balancer may forward to an endpoint.
func (b *builder) reaches(endpoint members.Endpoint) bool {
	if !isReachable(endpoint.Address) {
		return false
	}
	return slices.ContainsFunc(b.Pods.Ranges, func(r netip.Prefix) bool {
		return r.Contains(endpoint.Address)
	}) || b.isOfNode(endpoint)
}

// isOfNode reports whether the endpoint has an address of its node, as pods of the host's network
// do.
func (b *builder) isOfNode(endpoint members.Endpoint) bool {
	return slices.ContainsFunc(b.Nodes, func(node Node) bool {
		return node.Node != nil && node.Holder == "" && node.Name == endpoint.Node &&
			slices.ContainsFunc(reachableAddresses(node.Node, b.family()), func(text string) bool {
				return SameAddress(text, endpoint.Address.String())
			})
	})
}

// pods returns the members at a port. One that drains gets no new connections.
func (b *builder) pods(port v1.ServicePort) []octavia.Member {
	found, _ := b.podsAt(port)
	all := make([]octavia.Member, 0, len(found))
	for _, each := range found {
		m := octavia.Member{
			Name:    cmp.Or(each.Node, each.Address.String()),
			Address: each.Address.String(), Port: int(each.Port),
			SubnetID: b.Places.Member.ID, Weight: 1,
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

// podRules opens the ports of the pods at the nodes' ports.
func (b *builder) podRules(port v1.ServicePort, sources []string) (rules []neutron.Rule) {
	found, _ := b.podsAt(port)
	for _, each := range found {
		for _, source := range sources {
			rules = append(rules, rule(strings.ToLower(transport(port)), int(each.Port), source))
		}
	}
	return unique(rules)
}

// sayUnreachable reports that endpoints are not members. The text is the same for all of them, so
// that a rollout does not lead to an event for each.
func (b *builder) sayUnreachable() {
	if b.Pods == nil {
		return
	}
	for _, port := range b.Service.Spec.Ports {
		if _, others := b.podsAt(port); len(others) > 0 {
			b.warn(events.EndpointsLeftOut, "endpoints of the Service are not members: their addresses "+
				"are neither in a range of pods that the load balancer reaches ("+b.ranges()+
				") nor addresses of their nodes")
			return
		}
	}
}

// ranges lists the ranges of the pods of one family. A cluster with a range for each node has many.
func (b *builder) ranges() string {
	const most = 3
	var texts []string
	for _, r := range b.Pods.Ranges {
		if familyOf(r.Addr()) == b.family() {
			texts = append(texts, r.String())
		}
	}
	slices.Sort(texts)
	switch {
	case len(texts) == 0:
		return "none of " + string(b.family())
	case len(texts) > most:
		return strings.Join(texts[:most], ", ") + " and others"
	}
	return strings.Join(texts, ", ")
}
