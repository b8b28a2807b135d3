package routes

import (
	"net/netip"
	"time"
)

// standing is the relation of a route to this cluster.
type standing int

const (
	// foreign belongs, or may belong, to another cluster.
	foreign standing = iota
	// ours leads to a node.
	ours
	// stale was ours, or leads to an address of a node that is not a next hop.
	stale
	// orphan was ours, and its node is gone.
	orphan
	// dead leads to no device.
	dead
)

type owner struct {
	standing
	// node is the name of the node, for ours and orphan.
	node string
	// claimed: the destination is a pod CIDR of the node.
	claimed bool
}

// knowledge is the data that decides on ownership.
type knowledge struct {
	nodes nodeIndex
	// known maps routes that were ours since the process started to their nodes.
	known map[route]string
	// paired reports whether routes have their address pairs, as far as that is known.
	paired map[route]pairing
	// alive reports for looked-up addresses whether a device has them.
	alive map[netip.Addr]bool
}

// owner determines the owner of a route. A route without a certain owner is foreign.
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

// former determines the owner of a route that was ours.
func (k knowledge) former(r route, name string) owner {
	node, ok := k.nodes.byName[name]
	if !ok {
		return owner{standing: orphan, node: name}
	}
	if len(internalIPs(node, r.nextHop.Is4())) > 0 {
		return owner{standing: stale}
	}
	// A node that has just registered again has no address yet. Its pods stay connected.
	_, claimed := podCIDR(node, r.destination)
	return owner{ours, name, claimed}
}

// strangers are the next hops that must be looked up.
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

// unchecked are the routes to nodes whose address pairs must be looked at: all of them if one was
// not looked at since the given time, so that one list of ports serves all.
func (k knowledge) unchecked(all []entry, since time.Time) []route {
	var claimed []route
	due := false
	for _, e := range all {
		if o := k.owner(e.route); !e.foreign && o.standing == ours && o.claimed {
			claimed = append(claimed, e.route)
			due = due || !k.paired[e.route].at.After(since)
		}
	}
	if !due {
		return nil
	}
	return claimed
}
