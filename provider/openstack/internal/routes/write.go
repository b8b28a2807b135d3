package routes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"

	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
)

const (
	// planAge is how old a snapshot may be that changes are planned on.
	planAge = 10 * time.Second
	// maxEdits bounds how often the router is written for one batch. One culprit among 500 routes is found in 19.
	maxEdits = 64
	// maxRounds bounds how often a batch is looked at again, because somebody else has changed the router meanwhile.
	maxRounds = 3
	// maxStale bounds how often one write is tried again, because somebody else was first.
	maxStale = 10
	// undoTime is how long it may take to undo what has turned out to be wrong, also when nobody waits for it any more.
	undoTime = 10 * time.Second
)

var errAbandoned = errors.New("the caller has given up")

// writer writes batches of changes to the router.
type writer struct {
	api        *api
	router     *routerCache
	extensions func(context.Context) (capability.NetworkExtensions, error)
	ownerOf    func(route) owner
	log        logr.Logger
}

// run carries out one batch.
//
// After the writing it looks again, at the router as the last write has left it: Neutron lets two routes have one destination, so
// another may have been created by somebody else since the look before. Then ours is taken back.
func (w *writer) run(ctx context.Context, calls []*call) {
	j := &job{writer: w, calls: calls, unsettled: make([]int, len(calls)), added: map[int]bool{}}
	for i := range calls {
		j.unsettled[i] = i
	}
	for round := range maxRounds {
		s, err := w.router.get(ctx, planAge)
		if err != nil {
			if round == 0 {
				j.fail(j.unsettled, err)
			}
			return // in a later round all is written, and nobody has said that it is wrong
		}
		removals, creations := j.plan(ctx, s)
		if len(removals) == 0 && len(creations) == 0 {
			return
		}
		j.apply(ctx, removals)
		j.apply(ctx, creations)
		j.settleRemovals()
	}
	j.failUnfinished()
}

// call is a change that a caller waits for.
type call struct {
	change
	err error
	// ctxDone is closed when the caller's context ends.
	ctxDone <-chan struct{}
}

func (c *call) isAbandoned() bool {
	select {
	case <-c.ctxDone:
		return true
	default:
		return false
	}
}

// job is one batch on its way.
type job struct {
	*writer
	calls []*call
	// unsettled are the calls that have not failed, added those whose route we have added.
	unsettled []int
	added     map[int]bool
	edits     int
	// full is set once the router has no room for another route.
	full error
}

func (j *job) fail(indexes []int, err error) {
	for _, i := range indexes {
		j.calls[i].err = err
	}
	j.settle()
}

func (j *job) settle() {
	var left []int
	for _, i := range j.unsettled {
		if j.calls[i].err == nil {
			left = append(left, i)
		}
	}
	j.unsettled = left
}

// settleRemovals leaves only creations to be looked at again. What has been removed may have been created since, in this very batch.
func (j *job) settleRemovals() {
	j.unsettled = slices.DeleteFunc(j.unsettled, func(i int) bool { return j.calls[i].removes() })
}

// plan plans what is unsettled, and refuses what must not be.
func (j *job) plan(ctx context.Context, s *snapshot) (removals, creations []step) {
	indexes := j.unsettled
	changes := make([]change, len(indexes))
	for at, i := range indexes {
		changes[at] = j.calls[i].change
	}
	removals, creations, refused := plan(changes, s.entries, j.ownerOf)
	for _, steps := range [][]step{removals, creations} {
		for s := range steps {
			for at, c := range steps[s].changes {
				steps[s].changes[at] = indexes[c]
			}
		}
	}
	var undo []route
	for at, err := range refused {
		i := indexes[at]
		j.log.V(2).Info("Refused a route", "destination", j.calls[i].destination, "nextHop", j.calls[i].nextHop, "reason", err.Error())
		j.calls[i].err = err
		if j.added[i] {
			undo = append(undo, j.calls[i].route)
		}
	}
	j.settle()
	j.undo(ctx, undo)
	return removals, creations
}

// undo removes exactly the routes that this batch has added.
func (j *job) undo(ctx context.Context, added []route) {
	if len(added) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	s := step{}
	for _, r := range added {
		s.remove = append(s.remove, entry{route: r, stored: r.raw()})
	}
	if err := j.edit(ctx, []step{s}); err != nil {
		j.log.Error(err, "Could not take back routes that are in conflict with others", "routes", added)
	}
}

// apply carries out steps together. When Neutron finds fault with them they are halved, until the culprit is alone.
func (j *job) apply(ctx context.Context, steps []step) {
	steps = j.wanted(steps)
	if len(steps) == 0 {
		return
	}
	err := j.tryEdit(ctx, steps)
	switch {
	case err == nil:
		j.noteAdded(steps)
	case len(steps) == 1 || !blames(err):
		if isFull(err) {
			j.full = err
		}
		j.failSteps(steps, err)
	default:
		half := len(steps) / 2
		j.apply(ctx, steps[:half])
		j.apply(ctx, steps[half:])
	}
}

func (j *job) tryEdit(ctx context.Context, steps []step) error {
	if j.edits >= maxEdits {
		return fmt.Errorf("router %s was not written, for too many routes of %d were refused", j.api.routerID, len(j.calls))
	}
	j.edits++
	return j.edit(ctx, steps)
}

// wanted leaves out the steps that have failed already, and those that nobody waits for any more.
func (j *job) wanted(steps []step) []step {
	var wanted []step
	for _, s := range steps {
		switch {
		case j.full != nil && len(s.add) > len(s.remove):
			j.failSteps([]step{s}, j.full)
		case j.allAbandoned(s):
			j.failSteps([]step{s}, errAbandoned)
		default:
			wanted = append(wanted, s)
		}
	}
	return wanted
}

func (j *job) allAbandoned(s step) bool {
	for _, i := range s.changes {
		if !j.calls[i].isAbandoned() {
			return false
		}
	}
	return true
}

func (j *job) failSteps(steps []step, err error) {
	for _, s := range steps {
		j.fail(s.changes, err)
	}
}

// failUnfinished is for calls that somebody else has undone each time.
func (j *job) failUnfinished() {
	s := j.router.newest()
	if s == nil {
		return
	}
	removals, creations := j.plan(context.Background(), s)
	err := fmt.Errorf("router %s is being changed by others, too", j.api.routerID)
	j.failSteps(removals, err)
	j.failSteps(creations, err)
}

func (j *job) noteAdded(steps []step) {
	for _, s := range steps {
		for _, i := range s.changes {
			j.added[i] = j.added[i] || len(s.add) > 0
		}
	}
}

// edit carries out steps as one change of the router.
func (j *job) edit(ctx context.Context, steps []step) error {
	has, err := j.extensions(ctx)
	if err != nil {
		return err
	}
	if !hasRoutes(has) {
		return ErrNoRoutes
	}
	if hasAtomicRoutes(has) {
		err = j.editAtomic(ctx, steps)
	} else {
		err = j.editPlain(ctx, steps)
	}
	// A refusal has changed nothing. After anything else we do not know.
	if err != nil && !blames(err) {
		j.router.forget()
	}
	return err
}

// editAtomic has Neutron add and remove single routes: whatever others do at the same time is not lost.
func (w *writer) editAtomic(ctx context.Context, steps []step) error {
	remove, add := w.difference(w.router.newest(), steps)
	if len(remove) > 0 {
		changed, err := w.api.removeRoutes(ctx, remove)
		if err != nil {
			return err
		}
		w.learn(changed, 0, len(remove))
	}
	if len(add) > 0 {
		changed, err := w.api.addRoutes(ctx, add)
		if err != nil {
			return err
		}
		w.learn(changed, len(add), 0)
	}
	return nil
}

// editPlain replaces all routes at once, and begins anew when the router's revision shows that somebody else has changed it. A cloud that does
// not count revisions cannot tell; then changes are only safe from each other within this process, and the router is read right before.
func (w *writer) editPlain(ctx context.Context, steps []step) error {
	age := planAge
	for range maxStale {
		s, err := w.router.get(ctx, age)
		if err == nil && s.Revision == nil && age > 0 {
			s, err = w.router.get(ctx, 0)
		}
		if err != nil {
			return err
		}
		remove, add := w.difference(s, steps)
		if len(remove) == 0 && len(add) == 0 {
			return nil
		}
		changed, err := w.api.putRoutes(ctx, replaced(s.Routes, remove, add), s.Revision)
		if err == nil {
			w.learn(changed, len(add), len(remove))
			return nil
		}
		if !isStale(err) {
			return err
		}
		age = 0
	}
	return fmt.Errorf("router %s was changed by others %d times meanwhile", w.api.routerID, maxStale)
}

func (w *writer) learn(changed *router, added, removed int) {
	w.router.learn(changed)
	w.log.Info("Changed the routes of the router", "router", w.api.routerID, "added", added, "removed", removed, "routes", len(changed.Routes))
}

// difference is what is still to be done of the steps. Without a snapshot it is all.
func (w *writer) difference(s *snapshot, steps []step) (remove, add []routers.Route) {
	stored, there := map[routers.Route]bool{}, map[route]bool{}
	if s != nil {
		for _, e := range s.entries {
			stored[e.stored], there[e.route] = true, !e.foreign
		}
	}
	for _, step := range steps {
		for _, e := range step.remove {
			if s == nil || stored[e.stored] {
				remove = append(remove, e.stored)
			}
		}
		for _, r := range step.add {
			if !there[r] {
				add = append(add, r.raw())
			}
		}
	}
	return remove, add
}

// replaced keeps the order of what stays, and what it cannot read.
func replaced(all, remove, add []routers.Route) []routers.Route {
	gone := map[routers.Route]bool{}
	for _, r := range remove {
		gone[r] = true
	}
	result := make([]routers.Route, 0, len(all)+len(add))
	for _, r := range all {
		if !gone[r] {
			result = append(result, r)
		}
	}
	return append(result, add...)
}
