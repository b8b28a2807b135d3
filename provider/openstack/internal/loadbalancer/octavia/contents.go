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
// as they were last applied ([AppliedState.Omitted]), a reconcile reads all fields. So does the
// check for drift, of a few load balancers in each period ([AppliedState.Compared]).
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
	s := &survey{id: id}
	found, known := a.recallSurvey(id, updated)
	if known {
		s.findings = found
	} else if err := a.surveys.Ask(ctx, s); err != nil {
		return Contents{}, err
	}
	if s.err != nil {
		return Contents{}, s.err
	}
	told, err := a.known(ctx, s, depth)
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
func (a *API) known(ctx context.Context, s *survey, depth Depth) (tree, error) {
	switch {
	case depth == InPart:
		return a.statusTree(ctx, s.id)
	case s.empty():
		_, err := a.Get(ctx, s.id)
		return nil, err
	}
	return nil, nil
}

// readMembersOf reads the members that the tree omits: the pool has no listener, or it got one only
// after the pools were read.
func (a *API) readMembersOf(ctx context.Context, pools []Pool, known tree) error {
	var unknown []*Pool
	for i := range pools {
		pool := &pools[i]
		branch, ok := known[pool.ID]
		if !ok {
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

// survey requests the listeners and pools of a load balancer. Surveys of one batch share requests.
type survey struct {
	id string

	// The findings are set after the batch. Callers of the same load balancer share them, and must
	// not change them.
	findings
	err error
}

type findings struct {
	listeners []shownListener
	pools     []shownPool
	// monitors are the monitors of all load balancers by their IDs, if a batch was large; else nil.
	monitors map[string]*Monitor
}

// surveyed holds the findings about the whole project, and when the load balancers last changed.
type surveyed struct {
	begun time.Time
	byID  map[string]findings
	// updated are the load balancers' UpdatedAt in the list before the survey.
	updated map[string]time.Time
}

// surveyAge is how long the findings about the project answer later calls, of which a start has
// many.
const surveyAge = time.Minute

// recallSurvey answers from the last survey of the project. updated is the UpdatedAt that the
// caller has seen: if it is equal in the survey, the load balancer has not changed since.
func (a *API) recallSurvey(id string, updated time.Time) (findings, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.surveyed
	if last == nil || updated.IsZero() || a.config.Clock.Since(last.begun) > surveyAge ||
		!last.updated[id].Equal(updated) {
		return findings{}, false
	}
	found, ok := last.byID[id]
	return found, ok && !found.empty()
}

// startSurvey records the UpdatedAt of the load balancers before the survey.
func (a *API) startSurvey() *surveyed {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &surveyed{begun: a.config.Clock.Now(), updated: map[string]time.Time{}}
	if a.last != nil {
		for _, lb := range a.last.all {
			s.updated[lb.ID] = lb.UpdatedAt
		}
	}
	return s
}

func (f findings) empty() bool { return len(f.listeners)+len(f.pools) == 0 }

func (a *API) answerSurveys(ctx context.Context, asked []*survey) {
	byID := map[string][]*survey{}
	var ids []string
	for _, s := range asked {
		if byID[s.id] == nil {
			ids = append(ids, s.id)
		}
		byID[s.id] = append(byID[s.id], s)
	}
	answer := func(id string, found findings, err error) {
		for _, s := range byID[id] {
			s.findings, s.err = found, err
		}
	}
	if len(ids) > few {
		ids = a.surveyAll(ctx, ids, answer)
	}
	errs := batch.InParallel(ids, width, func(id string) error {
		found, err := a.surveyOne(ctx, id)
		answer(id, found, err)
		return nil
	})
	for i, err := range errs {
		if err != nil {
			answer(ids[i], findings{}, err)
		}
	}
}

// surveyAll answers from lists of the whole project, and returns the IDs that these lack: the load
// balancer may be another project's, which an administrator may use.
func (a *API) surveyAll(
	ctx context.Context, ids []string, answer func(string, findings, error),
) (unknown []string) {
	began := a.startSurvey()
	all, _, err := sharing.Of(ctx, a.config.Share, a.config.Clock, "contents",
		sharing.AfterNow(a.config.Clock), a.surveyProject)
	byID := all.byLoadBalancer()
	for id, found := range byID {
		found.monitors = all.monitors
		byID[id] = found
	}
	if err == nil {
		began.byID = byID
		a.mu.Lock()
		a.surveyed = began
		a.mu.Unlock()
	}
	for _, id := range ids {
		found := byID[id]
		if err == nil && found.empty() {
			unknown = append(unknown, id)
			continue
		}
		answer(id, found, err)
	}
	return unknown
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

func (f findings) byLoadBalancer() map[string]findings {
	byID := map[string]findings{}
	for _, l := range f.listeners {
		found := byID[l.LoadBalancers[0].ID]
		found.listeners = append(found.listeners, l)
		byID[l.LoadBalancers[0].ID] = found
	}
	for _, p := range f.pools {
		found := byID[p.LoadBalancers[0].ID]
		found.pools = append(found.pools, p)
		byID[p.LoadBalancers[0].ID] = found
	}
	return byID
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
