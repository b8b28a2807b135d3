package octavia

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// Depth is how much is read of members and health monitors.
//
// Reading in part makes a restart cheap. Measured with 200 Services of one, two and three ports, it
// takes 206 requests; with all fields 206, 406 and 606. In return, a plan does not compare the
// fields that were left out ([Pool.MembersInPart], [Pool.MonitorInPart]). If these are not desired
// as they were last applied ([AppliedState.Omitted]), a reconcile reads all fields. After a start,
// when that is unknown, it does so only for members that drain, or have to. The check for drift
// reads all fields of a few load balancers in each period ([AppliedState.Compared]).
type Depth int

const (
	// InPart is the content of the status tree, which takes one request for all members and
	// monitors: of a member its ID, name, address and port, of a monitor its ID, name and type. The
	// tree omits a pool without a listener, so such a pool is read fully.
	InPart Depth = iota
	// Full means all fields. It takes a request for the members of each pool, and one for the
	// monitors.
	Full
)

// Contents reads the parts of a load balancer, all of them after the call. The result is no
// snapshot: listeners and pools are read first, then the parts of the pools. The error wraps
// [ErrNotFound] if the load balancer does not exist, and [ErrForbidden] if it is another project's.
// A part that is deleted meanwhile is no error.
//
// Concurrent calls for other load balancers share lists of the project's listeners, pools and
// monitors, for up to a minute: then the monitors are read fully. An older list is used if updated,
// the UpdatedAt that the caller has seen, shows no change. The zero time never does.
func (a *API) Contents(
	ctx context.Context, id string, depth Depth, updated time.Time,
) (Contents, error) {
	c, err := a.contents(ctx, id, depth, updated)
	if err != nil {
		return Contents{}, fmt.Errorf("read what is below load balancer %q: %w", id, err)
	}
	return c, nil
}

func (a *API) contents(
	ctx context.Context, id string, depth Depth, updated time.Time,
) (Contents, error) {
	if id == "" {
		return Contents{}, ErrNotFound
	}
	s, known := a.surveys.Recall(id)
	if !known || !s.updated.Equal(updated) {
		var err error
		if s, _, err = a.surveys.Renew(ctx, id); err != nil {
			return Contents{}, err
		}
	}
	if s.err != nil {
		return Contents{}, s.err
	}
	told, err := a.known(ctx, id, s, depth)
	if err != nil {
		return Contents{}, err
	}
	var c Contents
	for i := range s.listeners {
		c.Listeners = append(c.Listeners, s.listeners[i].value())
	}
	for i := range s.pools {
		c.Pools = append(c.Pools, s.pools[i].value())
	}
	if err := a.readMembersOf(ctx, c.Pools, told); err != nil {
		return Contents{}, err
	}
	return c, a.readMonitorsOf(ctx, c.Pools, s, told)
}

// known returns the status tree; nil if everything is to be read fully. Without the tree, filtered
// lists cannot distinguish an empty load balancer from one that does not exist.
func (a *API) known(ctx context.Context, id string, s *survey, depth Depth) (tree, error) {
	switch {
	case depth == InPart:
		return a.statusTree(ctx, id)
	case s.empty():
		_, err := a.Get(ctx, id)
		return nil, err
	}
	return nil, nil
}

// readMembersOf reads the members that the tree omits: the pool has no listener, or it got one only
// after the pools were read. It also reads the weights of a pool in which a member drains, because
// the member may have to serve again.
func (a *API) readMembersOf(ctx context.Context, pools []Pool, known tree) error {
	var unknown []*Pool
	for i := range pools {
		pool := &pools[i]
		branch, ok := known[pool.ID]
		if !ok || branch.drains {
			unknown = append(unknown, pool)
			continue
		}
		pool.Members, pool.MembersInPart = branch.members, true
	}
	errs := batch.InParallel(unknown, width, func(pool *Pool) (err error) {
		pool.Members, err = a.members(ctx, pool.ID)
		return err
	})
	return cmp.Or(errs...)
}

// readMonitorsOf takes the monitors from the tree, unless all monitors were listed anyway or the
// tree lacks one.
func (a *API) readMonitorsOf(
	ctx context.Context, pools []Pool, s *survey, known tree,
) error {
	var ids []string
	full := s.monitors != nil
	for i := range pools {
		id := s.pools[i].MonitorID
		if id == "" {
			continue
		}
		ids = append(ids, id)
		monitor := known[pools[i].ID].monitor
		if monitor == nil || monitor.ID != id {
			full = true
			continue
		}
		pools[i].Monitor, pools[i].MonitorInPart = monitor, true
	}
	if !full || len(ids) == 0 {
		return nil
	}
	monitors, err := a.readMonitors(ctx, ids, s.monitors)
	if err != nil {
		return err
	}
	for i := range pools {
		if id := s.pools[i].MonitorID; id != "" {
			pools[i].Monitor, pools[i].MonitorInPart = monitors[id], false
		}
	}
	return nil
}

const (
	// few is the number of load balancers up to which listeners and pools are read one by one, with
	// two requests each. More are read with two lists of the whole project.
	few = 4
	// width is how many requests for one answer are sent concurrently.
	width = 8
)

// survey has the listeners and pools of a load balancer, or an error. Callers share it.
type survey struct {
	findings
	// updated is the load balancer's UpdatedAt in the list before a survey of the whole project.
	// Zero: it is unknown, so the survey answers no later calls.
	updated time.Time
	err     error
}

type findings struct {
	listeners []shownListener
	pools     []shownPool
	// monitors are the monitors of all load balancers by their IDs, if a batch was large; else nil.
	monitors map[string]*Monitor
}

// surveyAge is how long the findings about the project answer later calls, of which a start has
// many.
const surveyAge = time.Minute

func (f findings) empty() bool { return len(f.listeners)+len(f.pools) == 0 }

func (a *API) survey(ctx context.Context, ids []string) (found map[string]*survey, err error) {
	found = map[string]*survey{}
	if len(ids) > few {
		if found, err = a.surveyAll(ctx); err != nil {
			return nil, err
		}
	}
	// A list of the project lacks another project's load balancer, which an administrator may use.
	var unknown []string
	for _, id := range ids {
		if found[id] == nil {
			found[id], unknown = &survey{}, append(unknown, id)
		}
	}
	errs := batch.InParallel(unknown, width, func(id string) (err error) {
		found[id].findings, err = a.surveyOne(ctx, id)
		return err
	})
	for i, id := range unknown {
		found[id].err = errs[i]
	}
	return found, nil
}

// surveyAll returns the surveys from lists of the whole project.
func (a *API) surveyAll(ctx context.Context) (map[string]*survey, error) {
	before := a.LastList()
	all, _, err := sharing.Of(ctx, a.config.Share, a.config.Clock, "contents",
		sharing.AfterNow(a.config.Clock), a.surveyProject)
	if err != nil {
		return nil, err
	}
	found := map[string]*survey{}
	of := func(part above) *survey {
		id := part.LoadBalancers[0].ID
		s := found[id]
		if s == nil {
			s = &survey{findings: findings{monitors: all.monitors}}
			if before != nil {
				lb, _ := before.ByID(id)
				s.updated = lb.UpdatedAt
			}
			found[id] = s
		}
		return s
	}
	for _, l := range all.listeners {
		s := of(l.above)
		s.listeners = append(s.listeners, l)
	}
	for _, p := range all.pools {
		s := of(p.above)
		s.pools = append(s.pools, p)
	}
	return found, nil
}

// surveyProject lists the monitors, too. If each caller listed them later, many lists would be
// read, because the callers need them at different times.
func (a *API) surveyProject(ctx context.Context) (findings, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return findings{}, err
	}
	all, err := a.find(ctx, "project_id", project)
	if err == nil &&
		slices.ContainsFunc(all.pools, func(p shownPool) bool { return p.MonitorID != "" }) {
		all.monitors, err = a.listMonitors(ctx)
	}
	return all, err
}

// surveyOne filters the result itself, because an Octavia whose operator has switched filters off
// (allow_filtering) returns all objects.
func (a *API) surveyOne(ctx context.Context, id string) (findings, error) {
	all, err := a.find(ctx, "loadbalancer_id", id)
	if err != nil {
		return findings{}, err
	}
	var found findings
	for _, l := range all.listeners {
		if l.isOf(id) {
			found.listeners = append(found.listeners, l)
		}
	}
	for _, p := range all.pools {
		if p.isOf(id) {
			found.pools = append(found.pools, p)
		}
	}
	return found, nil
}

// find lists the listeners and the pools concurrently, with a filter.
func (a *API) find(ctx context.Context, filter, value string) (findings, error) {
	var found findings
	errs := batch.InParallel([]func() error{
		func() (err error) {
			found.listeners, err = list(ctx, a, "listeners", "listeners",
				url.Values{filter: {value}, "fields": fieldsOf[shownListener]()},
				func(l *shownListener) string { return l.ID })
			for _, l := range found.listeners {
				err = cmp.Or(err, l.check(l.ID, l.Protocol, l.Status))
			}
			return wrap("list listeners", err)
		},
		func() (err error) {
			found.pools, err = list(ctx, a, "pools", "pools",
				url.Values{filter: {value}, "fields": fieldsOf[shownPool]()},
				func(p *shownPool) string { return p.ID })
			for _, p := range found.pools {
				err = cmp.Or(err, p.check(p.ID, p.Protocol, p.Status))
			}
			return wrap("list pools", err)
		},
	}, 2, func(list func() error) error { return list() })
	return found, cmp.Or(errs...)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
