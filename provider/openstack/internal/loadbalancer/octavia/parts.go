package octavia

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// above are the load balancers that Octavia shows in a listener or pool.
type above struct {
	LoadBalancers []shownPart `json:"loadbalancers"`
}

// check returns an error if a field is missing that Octavia always shows.
func (a above) check(id, protocol string, status Status) error {
	if len(a.LoadBalancers) == 0 || protocol == "" || status == "" {
		return fmt.Errorf("%w: %s has no load balancer, no protocol, or no status", errNoAnswer, id)
	}
	return nil
}

// isOf reports whether the listener or pool belongs to a load balancer.
func (a above) isOf(id string) bool {
	return slices.ContainsFunc(a.LoadBalancers, func(lb shownPart) bool { return lb.ID == id })
}

// shownListener is a listener as Octavia shows it.
type shownListener struct {
	Listener
	above
	ConnectionLimit *int `json:"connection_limit"`
}

func (s *shownListener) value() Listener {
	l := s.Listener
	// -1 is the API's default.
	l.ConnectionLimit = ptr.Deref(s.ConnectionLimit, -1)
	FieldsOf[Listener]().normalize(&l)
	return l
}

// shownPool is a pool as Octavia shows it. The parts of the pool are read later.
type shownPool struct {
	Pool
	above
	MonitorID string `json:"healthmonitor_id"`
}

func (s *shownPool) value() Pool {
	p := s.Pool
	p.Tags, p.Members, p.Monitor = orNil(p.Tags), nil, nil
	return p
}

// shownMember is a member as Octavia shows it.
type shownMember struct {
	Member
	Weight *int `json:"weight"`
}

func (s *shownMember) value() Member {
	s.Member.Weight = ptr.Deref(s.Weight, 1)
	return s.Member
}

// members reads all fields of a pool's members.
func (a *API) members(ctx context.Context, poolID string) ([]Member, error) {
	path, query := "pools/"+url.PathEscape(poolID)+"/members",
		url.Values{"fields": fieldsOf[shownMember]()}
	shown, err := list(ctx, a, path, "members", query, func(s *shownMember) string { return s.ID })
	if err != nil {
		return nil, fmt.Errorf("list members of pool %s: %w", poolID, err)
	}
	var members []Member
	for i := range shown {
		if shown[i].Address == "" || shown[i].Port == 0 {
			return nil,
				fmt.Errorf("list members of pool %s: %w: %s has no address or no port", poolID,
					errNoAnswer, shown[i].ID)
		}
		members = append(members, shown[i].value())
	}
	return members, nil
}

// listMonitors lists the monitors of all load balancers: no filter exists for one load balancer.
func (a *API) listMonitors(ctx context.Context) (map[string]*Monitor, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {project}, "fields": fieldsOf[Monitor]()}
	shown, err := list(ctx, a, "healthmonitors", "healthmonitors", query,
		func(m *Monitor) string { return m.ID })
	if err != nil {
		return nil, fmt.Errorf("list health monitors: %w", err)
	}
	byID := make(map[string]*Monitor, len(shown))
	for i := range shown {
		byID[shown[i].ID] = &shown[i]
	}
	return byID, nil
}

// readMonitors returns the monitors with these ids, from a list of all if it is given.
func (a *API) readMonitors(
	ctx context.Context, ids []string, listed map[string]*Monitor,
) (map[string]*Monitor, error) {
	if listed == nil {
		var err error
		if listed, _, err = sharing.Of(ctx, a.config.Share, a.config.Clock, "monitors",
			sharing.AfterNow(a.config.Clock), a.listMonitors); err != nil {
			return nil, err
		}
	}
	monitors := map[string]*Monitor{}
	for _, id := range ids {
		shown := listed[id]
		if shown == nil {
			// The monitor may be another project's, which an administrator may use.
			var err error
			if shown, err = a.getMonitor(ctx, id); err != nil {
				return nil, fmt.Errorf("get health monitor %s: %w", id, err)
			}
		}
		monitors[id] = shown
	}
	return monitors, nil
}

func (a *API) getMonitor(ctx context.Context, id string) (*Monitor, error) {
	var body struct {
		Monitor *Monitor `json:"healthmonitor"`
	}
	if err := a.get(ctx, "healthmonitors/"+url.PathEscape(id), nil, &body); err != nil {
		return nil, err
	}
	if body.Monitor == nil || !strings.EqualFold(body.Monitor.ID, id) {
		return nil, errNoAnswer
	}
	return body.Monitor, nil
}

// tree is the status tree of a load balancer: the pools that have a listener, by ID.
type tree map[string]branch

// branch holds a pool's members, and its monitor or nil: of both only some fields.
type branch struct {
	members []Member
	// drains: a member has weight 0. Octavia shows this only in a pool with a monitor.
	drains  bool
	monitor *Monitor
}

// shownTree is the status tree as Octavia shows it. A nil list is missing: Octavia shows also empty
// lists.
type shownTree struct {
	ID        string `json:"id"`
	Listeners *[]struct {
		Pools *[]shownBranch `json:"pools"`
	} `json:"listeners"`
}

// shownBranch has the monitor under a key that differs from the pool's and from gophercloud's
// (octavia/api/v2/types/pool.py, PoolStatusResponse).
type shownBranch struct {
	ID      string        `json:"id"`
	Members *[]treeMember `json:"members"`
	Monitor *Monitor      `json:"health_monitor"`
}

// treeMember is a member as the status tree shows it.
type treeMember struct {
	Member
	Operating string `json:"operating_status"`
}

// statusTree reads the members and monitors of all pools with one request. The error wraps
// ErrNotFound if the load balancer does not exist.
func (a *API) statusTree(ctx context.Context, id string) (tree, error) {
	t, err := a.readTree(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("get status tree: %w", err)
	}
	return t, nil
}

func (a *API) readTree(ctx context.Context, id string) (tree, error) {
	var body struct {
		Statuses struct {
			LoadBalancer *shownTree `json:"loadbalancer"`
		} `json:"statuses"`
	}
	err := a.get(ctx, "loadbalancers/"+url.PathEscape(id)+"/status", nil, &body)
	shown := body.Statuses.LoadBalancer
	switch {
	case isNotFound(err):
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	case err != nil:
		return nil, err
	case shown == nil || !strings.EqualFold(shown.ID, id) || shown.Listeners == nil:
		return nil, errNoAnswer
	}
	t := tree{}
	for _, listener := range *shown.Listeners {
		if listener.Pools == nil {
			return nil, errNoAnswer
		}
		for i := range *listener.Pools {
			pool := &(*listener.Pools)[i]
			if t[pool.ID], err = pool.value(); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (s *shownBranch) value() (branch, error) {
	if s.ID == "" || s.Members == nil {
		return branch{}, errNoAnswer
	}
	var b branch
	for _, m := range *s.Members {
		if m.ID == "" || m.Address == "" || m.Port == 0 {
			return branch{},
				fmt.Errorf("%w: a member of pool %s has no id, no address or no port", errNoAnswer,
					s.ID)
		}
		b.members = append(b.members,
			Member{
				ID: m.ID, Name: m.Name, Address: m.Address, Port: m.Port,
				Status: m.Status,
			})
		b.drains = b.drains || m.Operating == "DRAINING"
	}
	if m := s.Monitor; m != nil {
		b.monitor = &Monitor{ID: m.ID, Name: m.Name, Type: m.Type, Status: m.Status}
	}
	return b, nil
}
