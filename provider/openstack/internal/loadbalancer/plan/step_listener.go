package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

type (
	// CreateListener creates a listener with the default pool Pool; none if that is the zero value.
	CreateListener struct {
		LoadBalancer Ref
		Listener     octavia.Listener
		Pool         Ref
	}
	// UpdateListener sends all mutable fields of the listener.
	UpdateListener struct {
		ID       string
		Listener octavia.Listener
		// Pool is the new default pool; the zero value keeps the current one.
		Pool Ref
		// Changes are for people, such as "allowed_cidrs [10.0.0.0/8] -> none".
		Changes []string
	}
	DeleteListener struct{ ID, Name, Why string }
)

func (s CreateListener) String() string {
	text := "create listener " + listenerText(s.Listener)
	if s.Pool != (Ref{}) {
		text += " with default pool " + s.Pool.String()
	}
	return text
}

func (s CreateListener) details() []string { return listenerDetails(s.Listener) }

func (s CreateListener) quota() string { return "listeners" }

func (s CreateListener) chosen() []string { return octavia.Chosen(s.Listener) }

func (s CreateListener) predict(*predicted) bool { return false }

func (s CreateListener) take(ctx context.Context, r *run) error {
	lb, pool, err := r.findBoth(s.LoadBalancer, s.Pool)
	if err != nil {
		return err
	}
	return r.create(ctx, s.Listener.Name, func() (string, error) {
		return r.Octavia.CreateListener(ctx, lb, s.Listener, pool)
	})
}

func (s UpdateListener) String() string {
	return update("listener", s.ID, s.Listener.Name, s.Changes)
}

func (s UpdateListener) onlyTags() bool { return areTags(s.Changes) }

func (s UpdateListener) chosen() []string { return octavia.Chosen(s.Listener) }

func (s UpdateListener) predict(c *predicted) bool {
	i := slices.IndexFunc(c.listeners, func(l octavia.Listener) bool { return l.ID == s.ID })
	if i < 0 || s.Pool.Made != "" {
		return false
	}
	l := octavia.FieldsOf[octavia.Listener]().Updated(c.listeners[i], s.Listener)
	l.PoolID, l.Status = cmp.Or(s.Pool.ID, l.PoolID), octavia.Active
	c.listeners[i] = l
	return true
}

func (s UpdateListener) take(ctx context.Context, r *run) error {
	return r.changeIn(ctx, s.Pool, func(pool string) error {
		return r.Octavia.UpdateListener(ctx, s.ID, s.Listener, pool)
	})
}

func (s DeleteListener) String() string { return deletion("listener", s.ID, s.Name, s.Why) }

func (s DeleteListener) deleted() string { return s.ID }

func (s DeleteListener) predict(*predicted) bool { return false }

func (s DeleteListener) take(ctx context.Context, r *run) error {
	return r.change(ctx, func() error { return r.Octavia.DeleteListener(ctx, s.ID) })
}

func listenerText(l octavia.Listener) string {
	return fmt.Sprintf("%s (%s, port %d)", l.Name, l.Protocol, l.Port)
}

func listenerDetails(l octavia.Listener) []string {
	lines := octavia.FieldsOf[octavia.Listener]().Texts(l)
	if t := l.Timeouts; t != nil {
		lines = slices.Insert(lines, 1,
			fmt.Sprintf(
				"timeouts: client data %d ms, member connect %d ms, member data %d ms, TCP inspect %d ms",
				t.ClientData, t.MemberConnect, t.MemberData, t.TCPInspect))
	}
	return append(lines, tagDetails(l.Tags)...)
}
