package routes

import (
	"fmt"
	"net/netip"
)

// change is a requested change of the router.
type change struct {
	route
	// node is the owner of the new route. Empty: the route is removed.
	node string
}

func (c change) removes() bool { return c.node == "" }

// step is a set of edits that belong together.
type step struct {
	remove []entry
	add    []route
	// calls need the step.
	calls []*call
}

// plan computes the edits of a router: first the removals, then the creations, each in the order of
// the calls. A call that needs no edit is in no step; refused has the calls whose changes must not
// be made.
func plan(calls []*call, found []entry, ownerOf func(route) owner) (removals, creations []*step,
	refused map[*call]error,
) {
	p := planner{
		left: map[netip.Prefix][]entry{}, ownerOf: ownerOf,
		removal: map[route]*step{}, creation: map[netip.Prefix]creation{},
		refused: map[*call]error{},
	}
	for _, e := range found {
		if !e.foreign {
			p.left[e.destination] = append(p.left[e.destination], e)
		}
	}
	for _, c := range calls {
		if c.removes() {
			p.planRemoval(c)
		}
	}
	for _, c := range calls {
		if !c.removes() {
			p.planCreation(c)
		}
	}
	return p.removals, p.creations, p.refused
}

type planner struct {
	// left are the routes that remain after the removals, by destination.
	left    map[netip.Prefix][]entry
	ownerOf func(route) owner

	removals, creations []*step
	// removal and creation are the planned edits, which later calls can share.
	removal  map[route]*step
	creation map[netip.Prefix]creation
	refused  map[*call]error
}

// creation is an existing or planned route. Its step is nil if no edit is needed.
type creation struct {
	change
	*step
}

func (p *planner) planRemoval(c *call) {
	if shared := p.removal[c.route]; shared != nil {
		shared.calls = append(shared.calls, c)
		return
	}
	s := &step{calls: []*call{c}}
	var stay []entry
	for _, e := range p.left[c.destination] {
		if e.route == c.route {
			s.remove = append(s.remove, e)
		} else {
			stay = append(stay, e)
		}
	}
	if len(s.remove) == 0 {
		return
	}
	p.left[c.destination] = stay
	p.removal[c.route] = s
	p.removals = append(p.removals, s)
}

func (p *planner) planCreation(c *call) {
	if earlier, ok := p.creation[c.destination]; ok {
		p.join(c, earlier)
		return
	}
	s := &step{calls: []*call{c}, add: []route{c.route}}
	for _, e := range p.left[c.destination] {
		if e.route == c.route {
			s.add = nil
			continue
		}
		if err := mayReplace(e.route, p.ownerOf(e.route), c.change); err != nil {
			p.refused[c] = err
			return
		}
		s.remove = append(s.remove, e)
	}
	if len(s.add) == 0 && len(s.remove) == 0 {
		p.creation[c.destination] = creation{change: c.change}
		return
	}
	p.creation[c.destination] = creation{c.change, s}
	p.creations = append(p.creations, s)
}

// join shares a step between two calls that want the same route. Of two different routes, the
// second is refused.
func (p *planner) join(c *call, earlier creation) {
	switch {
	case earlier.change != c.change:
		p.refused[c] = conflict(c.destination,
			"a route to node %s is being created; the nodes must have different pod CIDRs",
			earlier.node)
	case earlier.step != nil:
		earlier.calls = append(earlier.calls, c)
	}
}

// mayReplace decides whether a creation may replace a route.
func mayReplace(r route, o owner, c change) error {
	switch {
	case o.standing == foreign:
		return conflict(r.destination, "the one via %s does not belong to this cluster, because no "+
			"node has this address; remove the route if nothing uses it", r.nextHop)
	case o.standing == ours && o.claimed && o.node != c.node:
		return conflict(r.destination,
			"the one via %s belongs to node %s; the nodes must have different pod CIDRs",
			r.nextHop, o.node)
	}
	return nil
}

func conflict(destination netip.Prefix, format string, args ...any) error {
	return neutronError("another route to %s exists: %s", destination, fmt.Sprintf(format, args...))
}
