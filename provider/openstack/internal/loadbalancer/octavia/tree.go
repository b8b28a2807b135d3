package octavia

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// tree is the status tree of a load balancer: the pools that have a listener, by ID.
type tree map[string]branch

// branch holds a pool's members, and its monitor or nil: of both only some fields.
type branch struct {
	members []Member
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
	ID      string         `json:"id"`
	Members *[]shownMember `json:"members"`
	Monitor *Monitor       `json:"health_monitor"`
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
	}
	if m := s.Monitor; m != nil {
		b.monitor = &Monitor{ID: m.ID, Name: m.Name, Type: m.Type, Status: m.Status}
	}
	return b, nil
}
