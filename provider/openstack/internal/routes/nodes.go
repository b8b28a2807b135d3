package routes

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
)

// nodeIndex finds nodes by name and by address.
type nodeIndex struct {
	byName map[string]*v1.Node
	// internal has the InternalIPs, which are next hops. Two nodes may share one: a replaced server
	// and its successor. other has all other addresses.
	internal map[netip.Addr][]*v1.Node
	other    map[netip.Addr]bool
	// unverified are the names of nodes whose servers are unknown.
	unverified map[string]bool
}

// indexNodes leaves out the addresses that a node's server does not have: a node reports its
// addresses itself. serverOf is nil if each node has what it reports.
func indexNodes(
	nodes []*v1.Node, serverOf func(*v1.Node) (instances.Server, bool),
) nodeIndex {
	index := nodeIndex{
		byName:   make(map[string]*v1.Node, len(nodes)),
		internal: make(map[netip.Addr][]*v1.Node, len(nodes)),
		other:    map[netip.Addr]bool{}, unverified: map[string]bool{},
	}
	for _, node := range nodes {
		index.byName[node.Name] = node
		var server instances.Server
		isKnown := false
		if serverOf != nil {
			server, isKnown = serverOf(node)
			index.unverified[node.Name] = !isKnown
		}
		for _, a := range node.Status.Addresses {
			address, err := parseAddress(a.Address)
			switch {
			case err != nil, isKnown && !hasAddress(server, address):
			case a.Type == v1.NodeInternalIP:
				index.internal[address] = append(index.internal[address], node)
			case !index.unverified[node.Name]:
				index.other[address] = true
			}
		}
	}
	return index
}

func hasAddress(server instances.Server, address netip.Addr) bool {
	return slices.ContainsFunc(server.Addresses, func(a v1.NodeAddress) bool {
		has, err := parseAddress(a.Address)
		return err == nil && has == address
	})
}

// at is the node with this InternalIP. Of several nodes, the one with the pod CIDR wins, then the
// first by name. A node whose server is unknown counts only with the pod CIDR: another route to an
// address that it reports may be anyone's.
func (x nodeIndex) at(address netip.Addr, destination netip.Prefix) *v1.Node {
	var found *v1.Node
	for _, node := range x.internal[address] {
		if _, ok := podCIDR(node, destination); ok {
			return node
		}
		if !x.unverified[node.Name] && (found == nil || node.Name < found.Name) {
			found = node
		}
	}
	return found
}

// hasIn reports whether an InternalIP of a node satisfies the condition.
func (x nodeIndex) hasIn(condition func(netip.Addr) bool) bool {
	for address := range x.internal {
		if condition(address) {
			return true
		}
	}
	return false
}

// nextHopsTo are the possible next hops of routes to a node: its InternalIPs of the destination's
// family, at least one.
func nextHopsTo(node *v1.Node, destination netip.Prefix) ([]netip.Addr, error) {
	if all := internalIPs(node, destination.Addr().Is4()); len(all) > 0 {
		return all, nil
	}
	family := v1.IPv6Protocol
	if destination.Addr().Is4() {
		family = v1.IPv4Protocol
	}
	return nil, kubernetesError("node %s has no InternalIP of family %s for pod CIDR %s; give its "+
		"server an address of this family", node.Name, family, destination)
}

func internalIPs(node *v1.Node, is4 bool) (all []netip.Addr) {
	for _, a := range node.Status.Addresses {
		if a.Type != v1.NodeInternalIP {
			continue
		}
		if address, err := parseAddress(a.Address); err == nil && address.Is4() == is4 {
			all = append(all, address)
		}
	}
	return all
}

// podCIDR reports whether the destination is a pod CIDR of the node, and returns the node's
// spelling, because upstream's controller compares texts.
func podCIDR(node *v1.Node, destination netip.Prefix) (string, bool) {
	for _, cidr := range node.Spec.PodCIDRs {
		if prefix, err := parseDestination(cidr); err == nil && prefix == destination {
			return cidr, true
		}
	}
	return "", false
}
