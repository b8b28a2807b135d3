package routes

import (
	"net/netip"
)

// standing is what a route is to us.
type standing int

const (
	// foreign is somebody else's, or may be.
	foreign standing = iota
	// ours leads to a node.
	ours
	// stale was ours, or leads to a node by an address that is none for next hops.
	stale
	// orphan was ours, and its node is gone.
	orphan
	// dead leads nowhere.
	dead
)

// owner is whose a route is.
type owner struct {
	standing
	// node is the name of the node, for ours and orphan.
	node string
	// claimed is true when that node has the destination among its pod CIDRs.
	claimed bool
}

// knowledge is what routes are judged by.
type knowledge struct {
	nodes nodeIndex
	// known are routes that were ours and right since this process began, with the name of the node.
	known map[route]string
	// alive are addresses of which it was looked up whether somebody is there.
	alive map[netip.Addr]bool
}

// owner judges a route. What is not known for sure is foreign.
func (k knowledge) owner(r route) owner {
	if node := k.nodes.at(r.nextHop, r.destination); node != nil {
		_, claimed := podCIDR(node, r.destination)
		return owner{ours, node.Name, claimed}
	}
	if name, ok := k.known[r]; ok {
		return k.former(r, name)
	}
	if k.nodes.other[r.nextHop] {
		return owner{standing: stale}
	}
	if alive, ok := k.alive[r.nextHop]; ok && !alive {
		return owner{standing: dead}
	}
	return owner{standing: foreign}
}

// former judges a route that was a node's.
func (k knowledge) former(r route, name string) owner {
	node, ok := k.nodes.byName[name]
	if !ok {
		return owner{standing: orphan, node: name}
	}
	if _, ok := firstInternal(node, r.nextHop.Is4()); ok {
		return owner{standing: stale}
	}
	// It has no address at all, such as a node that has just registered anew. That is no reason to cut off its pods.
	_, claimed := podCIDR(node, r.destination)
	return owner{ours, name, claimed}
}

// strangers are the next hops of which somebody has to look up whether anybody is there.
func (k knowledge) strangers(all []entry) []netip.Addr {
	var strangers []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, e := range all {
		if e.foreign || seen[e.nextHop] {
			continue
		}
		if k.owner(e.route).standing == foreign || k.owner(e.route).standing == dead {
			seen[e.nextHop] = true
			strangers = append(strangers, e.nextHop)
		}
	}
	return strangers
}
