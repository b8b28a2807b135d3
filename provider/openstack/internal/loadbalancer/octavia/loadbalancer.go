package octavia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// shownLoadBalancer is a load balancer as Octavia shows it.
type shownLoadBalancer struct {
	LoadBalancer
	AdditionalVIPs []shownVIP `json:"additional_vips"`
	CreatedAt      timestamp  `json:"created_at"`
	UpdatedAt      timestamp  `json:"updated_at"`
	// Listeners and Pools are nil if they are missing, as in an answer that lists something else.
	Listeners []shownPart `json:"listeners"`
	Pools     []shownPart `json:"pools"`
}

type shownVIP struct {
	Address  string `json:"ip_address,omitempty"`
	PortID   string `json:"port_id,omitempty"`
	SubnetID string `json:"subnet_id,omitempty"`
}

// timestamp is a time as Octavia writes it: without a zone, in UTC. Null is zero.
type timestamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *timestamp) UnmarshalJSON(raw []byte) error {
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	t.Time = time.Time{}
	if text == nil || *text == "" {
		return nil
	}
	parsed, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(*text, "Z"))
	if err != nil {
		parsed, err = time.Parse(time.RFC3339, *text)
	}
	if err != nil {
		return err
	}
	t.Time = parsed.UTC()
	return nil
}

func (s *shownLoadBalancer) value() (LoadBalancer, error) {
	// Without a status the load balancer would count as settled.
	if s.Status == "" {
		return LoadBalancer{},
			fmt.Errorf("%w: load balancer %s has no status", errNoAnswer, s.ID)
	}
	lb := s.LoadBalancer
	lb.Tags = orNil(lb.Tags)
	lb.CreatedAt, lb.UpdatedAt = s.CreatedAt.Time, s.UpdatedAt.Time
	if s.Listeners != nil && s.Pools != nil {
		lb.Parts = []string{}
		for _, part := range slices.Concat(s.Listeners, s.Pools) {
			lb.Parts = append(lb.Parts, part.ID)
		}
		slices.Sort(lb.Parts)
	}
	for _, vip := range s.AdditionalVIPs {
		lb.AdditionalVIPs = append(lb.AdditionalVIPs,
			VIP{Address: vip.Address, PortID: vip.PortID, SubnetID: vip.SubnetID})
	}
	return lb, nil
}

// orNil replaces an empty slice with nil.
func orNil[T any](items []T) []T {
	if len(items) == 0 {
		return nil
	}
	return items
}

// Get reads one load balancer, with one request. The error wraps [ErrNotFound] if it does not
// exist, and [ErrForbidden] if it is another project's.
func (a *API) Get(ctx context.Context, id string) (LoadBalancer, error) {
	begun := a.config.Clock.Now()
	lb, err := a.getLoadBalancer(ctx, id)
	if err == nil || errors.Is(err, ErrNotFound) {
		a.paces.seeOne(begun, id, lb)
	}
	if err != nil {
		return LoadBalancer{}, fmt.Errorf("get load balancer %q: %w", id, err)
	}
	return lb, nil
}

func (a *API) getLoadBalancer(ctx context.Context, id string) (LoadBalancer, error) {
	// The path without an ID is the path of the list.
	if id == "" {
		return LoadBalancer{}, ErrNotFound
	}
	var body struct {
		LoadBalancer *shownLoadBalancer `json:"loadbalancer"`
	}
	err := a.get(ctx, "loadbalancers/"+url.PathEscape(id), nil, &body)
	switch {
	case isNotFound(err):
		return LoadBalancer{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	case err != nil:
		return LoadBalancer{}, err
	case body.LoadBalancer == nil || !strings.EqualFold(body.LoadBalancer.ID, id):
		return LoadBalancer{}, errNoAnswer
	}
	lb, err := body.LoadBalancer.value()
	if err == nil && lb.Status == Deleted {
		return LoadBalancer{}, ErrNotFound
	}
	return lb, err
}

// creation is the response to a creation: a load balancer with all of its parts.
type creation struct {
	shownLoadBalancer
	Listeners []shownPart `json:"listeners"`
	Pools     []struct {
		shownPart
		Monitor shownPart     `json:"healthmonitor"`
		Members []shownMember `json:"members"`
	} `json:"pools"`
}

// shownPart is a part of another object in a response, often without its name.
type shownPart struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ids returns the IDs for [LoadBalancer.Made].
func (s *creation) ids() map[string]string {
	ids := map[string]string{}
	for _, l := range s.Listeners {
		ids[l.Name] = l.ID
	}
	for _, p := range s.Pools {
		ids[p.Name], ids[p.Monitor.Name] = p.ID, p.Monitor.ID
		for _, m := range p.Members {
			ids[MadeMember(p.Name,
				MemberKey{Address: m.Address, Port: m.Port})] = m.ID
		}
	}
	delete(ids, "")
	return ids
}
