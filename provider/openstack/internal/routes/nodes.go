package routes

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// nodeIndex finds nodes by name and by address.
type nodeIndex struct {
	byName map[string]*v1.Node
	// internal has the InternalIPs, which are next hops. Two nodes may share one: a replaced server
	// and its successor. other has all other addresses.
	internal map[netip.Addr][]*v1.Node
	other    map[netip.Addr]bool
}

func indexNodes(nodes []*v1.Node) nodeIndex {
	index := nodeIndex{
		byName:   make(map[string]*v1.Node, len(nodes)),
		internal: make(map[netip.Addr][]*v1.Node, len(nodes)),
		other:    map[netip.Addr]bool{},
	}
	for _, node := range nodes {
		index.byName[node.Name] = node
		for _, a := range node.Status.Addresses {
			address, err := parseAddress(a.Address)
			switch {
			case err != nil:
			case a.Type == v1.NodeInternalIP:
				index.internal[address] = append(index.internal[address], node)
			default:
				index.other[address] = true
			}
		}
	}
	return index
}

// at is the node with this InternalIP. Of several nodes, the one with the pod CIDR wins, then the
// first by name.
func (x nodeIndex) at(address netip.Addr, destination netip.Prefix) *v1.Node {
	var found *v1.Node
	for _, node := range x.internal[address] {
		if _, ok := podCIDR(node, destination); ok {
			return node
		}
		if found == nil || node.Name < found.Name {
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
