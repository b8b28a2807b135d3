package routes

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrConflict is wrapped by the error of a route that cannot be created because a route to its
// destination exists that must not be replaced.
var ErrConflict = errors.New("another route to the destination exists")

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
	// changes are the indexes of the changes that need the step.
	changes []int
}

// plan computes the edits of a router: first the removals, then the creations, each in the order of
// the changes. A change that needs no edit is in no step; refused has the changes that must not be
// made.
func plan(changes []change, found []entry, ownerOf func(route) owner) (removals, creations []step,
	refused map[int]error,
) {
	p := planner{
		left: map[netip.Prefix][]entry{}, ownerOf: ownerOf,
		removal: map[route]int{}, creation: map[netip.Prefix]creation{}, refused: map[int]error{},
	}
	for _, e := range found {
		if !e.foreign {
			p.left[e.destination] = append(p.left[e.destination], e)
		}
	}
	for i, c := range changes {
		if c.removes() {
			p.planRemoval(i, c)
		}
	}
	for i, c := range changes {
		if !c.removes() {
			p.planCreation(i, c)
		}
	}
	return p.removals, p.creations, p.refused
}

type planner struct {
	// left are the routes that remain after the removals, by destination.
	left    map[netip.Prefix][]entry
	ownerOf func(route) owner

	removals, creations []step
	// removal and creation are the planned edits, which later changes can share.
	removal  map[route]int
	creation map[netip.Prefix]creation
	refused  map[int]error
}

// creation is an existing or planned route. step is -1 if no edit is needed.
type creation struct {
	change
	step int
}

func (p *planner) planRemoval(i int, c change) {
	if at, ok := p.removal[c.route]; ok {
		p.removals[at].changes = append(p.removals[at].changes, i)
		return
	}
	var remove, stay []entry
	for _, e := range p.left[c.destination] {
		if e.route == c.route {
			remove = append(remove, e)
		} else {
			stay = append(stay, e)
		}
	}
	if len(remove) == 0 {
		return
	}
	p.left[c.destination] = stay
	p.removal[c.route] = len(p.removals)
	p.removals = append(p.removals, step{remove: remove, changes: []int{i}})
}

func (p *planner) planCreation(i int, c change) {
	if earlier, ok := p.creation[c.destination]; ok {
		p.join(i, c, earlier)
		return
	}
	s := step{changes: []int{i}, add: []route{c.route}}
	for _, e := range p.left[c.destination] {
		if e.route == c.route {
			s.add = nil
			continue
		}
		if err := mayReplace(e.route, p.ownerOf(e.route), c); err != nil {
			p.refused[i] = err
			return
		}
		s.remove = append(s.remove, e)
	}
	if len(s.add) == 0 && len(s.remove) == 0 {
		p.creation[c.destination] = creation{c, -1}
		return
	}
	p.creation[c.destination] = creation{c, len(p.creations)}
	p.creations = append(p.creations, s)
}

// join shares a step between two changes that want the same route. Of two different routes, the
// second is refused.
func (p *planner) join(i int, c change, earlier creation) {
	if earlier.change != c {
		p.refused[i] = fmt.Errorf("%w %s: a route to node %s is being created", ErrConflict,
			c.destination, earlier.node)
		return
	}
	if earlier.step >= 0 {
		p.creations[earlier.step].changes = append(p.creations[earlier.step].changes, i)
	}
}

// mayReplace decides whether a creation may replace a route.
func mayReplace(r route, o owner, c change) error {
	switch {
	case o.standing == foreign:
		return fmt.Errorf("%w %s: the one via %s does not belong to this cluster", ErrConflict,
			r.destination, r.nextHop)
	case o.standing == ours && o.claimed && o.node != c.node:
		return fmt.Errorf("%w %s: the one via %s belongs to node %s, which has the same pod CIDR",
			ErrConflict, r.destination, r.nextHop, o.node)
	}
	return nil
}
