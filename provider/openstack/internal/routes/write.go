package routes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
)

const (
	// planAge limits the age of a snapshot on which changes are planned.
	planAge = 10 * time.Second
	// maxEdits limits the writes of the router in one batch. One bad route among 500 is found in
	// 19.
	maxEdits = 64
	// maxRounds limits how often a batch is planned again after a concurrent change of the router.
	maxRounds = 3
	// maxStale limits the retries of a write whose revision is out of date.
	maxStale = 10
	// undoTimeout limits the removal of conflicting routes, also after all callers have left.
	undoTimeout = 10 * time.Second
)

var errAbandoned = errors.New("the caller canceled the change")

// writer writes batches of changes to the router.
type writer struct {
	api             *api
	router          *routerCache
	hasAtomicRoutes func(context.Context) (bool, error)
	ownerOf         func(route) owner
	// recordCreations is called before routes are created.
	recordCreations func(context.Context, []*step)
	log             logr.Logger
}

// run executes one batch.
//
// After the write it checks the router again. Neutron accepts two routes with the same destination,
// so another client may have created one since the last read. run then removes the route that it
// added.
func (w *writer) run(ctx context.Context, calls []*call) {
	j := &job{writer: w, pending: slices.Clone(calls)}
	for round := range maxRounds {
		s, err := w.router.get(ctx, planAge)
		if err != nil {
			if round == 0 {
				j.fail(j.pending, err)
			}
			return // the batch is written; only the check for conflicts is missing
		}
		removals, creations := j.plan(ctx, s)
		if len(removals) == 0 && len(creations) == 0 {
			return
		}
		j.apply(ctx, removals)
		j.recordCreations(ctx, creations)
		j.apply(ctx, creations)
		// Only creations are left for the next round, because this batch may have created a removed
		// route again.
		j.pending = slices.DeleteFunc(j.pending, func(c *call) bool { return c.removes() })
	}
	j.failUnfinished()
}

// call is a change that a caller waits for.
type call struct {
	change
	err error
	// ctxDone is closed when the caller's context ends.
	ctxDone <-chan struct{}
	// added: the batch added the route.
	added bool
}

func (c *call) isAbandoned() bool {
	select {
	case <-c.ctxDone:
		return true
	default:
		return false
	}
}

// job is a batch in progress.
type job struct {
	*writer
	// pending are the calls that have not failed.
	pending []*call
	edits   int
	// full is set when the router has no room for another route.
	full error
}

func (j *job) fail(calls []*call, err error) {
	for _, c := range calls {
		c.err = err
	}
	j.pending = slices.DeleteFunc(j.pending, func(c *call) bool { return c.err != nil })
}

// plan plans the pending calls and fails those that are refused.
func (j *job) plan(ctx context.Context, s *snapshot) (removals, creations []*step) {
	removals, creations, refused := plan(j.pending, s.entries, j.ownerOf)
	var undo []route
	for c, err := range refused {
		j.log.V(2).Info("Refused to create a route", "destination", c.destination,
			"nextHop", c.nextHop, "reason", err.Error())
		j.fail([]*call{c}, err)
		if c.added {
			undo = append(undo, c.route)
		}
	}
	j.undo(ctx, undo)
	return removals, creations
}

// undo removes routes that this batch added.
func (j *job) undo(ctx context.Context, added []route) {
	if len(added) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	s := &step{}
	for _, r := range added {
		s.remove = append(s.remove, entry{route: r, stored: r.raw()})
	}
	if err := j.edit(ctx, []*step{s}); err != nil {
		j.log.Error(err, "Failed to remove routes that conflict with others", "routes", added)
	}
}

// apply executes steps together. If Neutron refuses their content, it bisects them.
func (j *job) apply(ctx context.Context, steps []*step) {
	steps = j.wanted(steps)
	if len(steps) == 0 {
		return
	}
	err := j.tryEdit(ctx, steps)
	switch {
	case err == nil:
		for _, s := range steps {
			for _, c := range s.calls {
				c.added = c.added || len(s.add) > 0
			}
		}
	case len(steps) == 1 || !isBadRequest(err):
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

func (j *job) tryEdit(ctx context.Context, steps []*step) error {
	if j.edits >= maxEdits {
		return neutronError("too many routes were refused for router %s; retrying", j.api.routerID)
	}
	j.edits++
	return j.edit(ctx, steps)
}

// wanted fails the steps that cannot succeed or that no caller waits for, and returns the others.
func (j *job) wanted(steps []*step) []*step {
	var wanted []*step
	for _, s := range steps {
		switch {
		case j.full != nil && len(s.add) > len(s.remove):
			j.failSteps([]*step{s}, j.full)
		case !slices.ContainsFunc(s.calls, func(c *call) bool { return !c.isAbandoned() }):
			j.failSteps([]*step{s}, errAbandoned)
		default:
			wanted = append(wanted, s)
		}
	}
	return wanted
}

func (j *job) failSteps(steps []*step, err error) {
	for _, s := range steps {
		j.fail(s.calls, err)
	}
}

// failUnfinished fails the calls that other clients have undone in each round.
func (j *job) failUnfinished() {
	s := j.router.newest()
	if s == nil {
		return
	}
	removals, creations := j.plan(context.Background(), s)
	err := j.overtaken()
	j.failSteps(removals, err)
	j.failSteps(creations, err)
}

// edit executes steps as one change of the router.
func (j *job) edit(ctx context.Context, steps []*step) error {
	isAtomic, err := j.hasAtomicRoutes(ctx)
	if err != nil {
		return err
	}
	if isAtomic {
		err = j.editAtomic(ctx, steps)
	} else {
		err = j.editPlain(ctx, steps)
	}
	// A refused request changed nothing. After other errors the state of the router is unknown.
	if err != nil && !isBadRequest(err) {
		j.router.forget()
	}
	return err
}

// editAtomic adds and removes single routes, so concurrent changes by others are not lost.
func (w *writer) editAtomic(ctx context.Context, steps []*step) error {
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

// editPlain replaces all routes, and retries if the router's revision shows a concurrent change.
// Without revision numbers it reads the router right before the write, and changes are safe only
// within this process.
func (w *writer) editPlain(ctx context.Context, steps []*step) error {
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
	return w.overtaken()
}

// overtaken is the error if others change the router in each attempt.
func (w *writer) overtaken() error {
	return neutronError("other clients keep changing router %s; retrying", w.api.routerID)
}

func (w *writer) learn(changed *router, added, removed int) {
	w.router.learn(changed)
	w.log.Info("Changed the routes of the router", "router", w.api.routerID, "added", added,
		"removed", removed, "routes", len(changed.Routes))
}

// difference is what remains to be done of the steps: all of it without a snapshot.
func (w *writer) difference(s *snapshot, steps []*step) (remove, add []routers.Route) {
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

// replaced keeps the order of the remaining routes, including unreadable ones.
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
