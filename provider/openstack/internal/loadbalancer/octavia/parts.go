package octavia

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/utils/ptr"
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
	l.Tags, l.AllowedCIDRs = orNil(l.Tags), slices.Sorted(slices.Values(l.AllowedCIDRs))
	if len(l.InsertHeaders) == 0 {
		l.InsertHeaders = nil
	}
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
