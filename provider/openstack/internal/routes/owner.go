package routes

import (
	"slices"
	"time"
)

// standing is the relation of a route to this cluster.
type standing int

const (
	// foreign belongs, or may belong, to another owner.
	foreign standing = iota
	// ours leads to a node.
	ours
	// stale was ours, or leads to an address of a node that is not a next hop.
	stale
	// orphan was ours, and its node is gone.
	orphan
)

type owner struct {
	standing
	// node is the name of the node whose route is ours or orphan.
	node string
	// claimed: the destination is a pod CIDR of the node.
	claimed bool
}

// knowledge is the data that decides on ownership.
type knowledge struct {
	nodes nodeIndex
	// known maps routes that were ours since the process started, or are confirmed to have been
	// ours before, to their nodes.
	known map[route]string
	// recorded maps routes that an earlier process recorded, and that are not confirmed, to their
	// nodes.
	recorded map[route]string
	// paired reports whether routes have their address pairs, as far as that is known.
	paired map[route]pairing
}

// owner determines the owner of a route. A route is foreign unless its next hop is, or was, an
// address of a node. That no server has the address proves nothing: it may be virtual.
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

// unconfirmed are the routes whose only evidence is the record.
func (k knowledge) unconfirmed(all []entry) []route {
	return slices.DeleteFunc(k.foreign(all), func(r route) bool {
		_, ok := k.recorded[r]
		return !ok
	})
}

// foreign are the routes that are not the cluster's.
func (k knowledge) foreign(all []entry) []route {
	var found []route
	for _, e := range all {
		if !e.foreign && k.owner(e.route).standing == foreign {
			found = append(found, e.route)
		}
	}
	return found
}
