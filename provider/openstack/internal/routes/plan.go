package routes

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrConflict is in the chain of the error of a route that cannot be created, since a route to its destination is there that is
// not ours to replace.
var ErrConflict = errors.New("there is another route to the destination")

// change is what a caller wants of the router.
type change struct {
	route
	// node is whose route it is to be. Empty: the route is to be removed.
	node string
}

func (c change) removes() bool { return c.node == "" }

// step is what has to be done together for some of the changes.
type step struct {
	remove []entry
	add    []route
	// changes are the indexes of the changes that want it.
	changes []int
}

// plan decides what has to be done to a router in which routes were found: first the removals, then the creations, each in the order of the
// changes. A change that needs nothing is in no step; one that must not be is in refused.
func plan(changes []change, found []entry, ownerOf func(route) owner) (removals, creations []step, refused map[int]error) {
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
	// left are the routes that the removals leave, by destination.
	left    map[netip.Prefix][]entry
	ownerOf func(route) owner

	removals, creations []step
	// removal and creation are what is planned already, for changes that want the same.
	removal  map[route]int
	creation map[netip.Prefix]creation
	refused  map[int]error
}

// creation is a route that is there or will be. Its step is -1 when nothing has to be done.
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

// join has two changes that want the same route share the work. Of two that do not, the second is refused.
func (p *planner) join(i int, c change, earlier creation) {
	if earlier.change != c {
		p.refused[i] = fmt.Errorf("%w %s: node %s is being given one", ErrConflict, c.destination, earlier.node)
		return
	}
	if earlier.step >= 0 {
		p.creations[earlier.step].changes = append(p.creations[earlier.step].changes, i)
	}
}

// mayReplace decides on a route that stands in the way of a creation.
func mayReplace(r route, o owner, c change) error {
	switch {
	case o.standing == foreign:
		return fmt.Errorf("%w %s: the one via %s is not of this cluster", ErrConflict, r.destination, r.nextHop)
	case o.standing == ours && o.claimed && o.node != c.node:
		return fmt.Errorf("%w %s: the one via %s is of node %s, which has the same pod CIDR", ErrConflict, r.destination, r.nextHop, o.node)
	}
	return nil
}
