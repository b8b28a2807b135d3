package octavia

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// Depth is how much is read of members and health monitors.
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
	return first(errs)
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

// first returns the first of the errors, which are often the same.
func first(errs []error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
