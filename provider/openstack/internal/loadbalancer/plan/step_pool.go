package plan

import (
	"context"
	"fmt"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

type (
	// CreatePool creates an empty pool: Octavia accepts members and monitor together with the pool
	// only as part of a whole load balancer.
	CreatePool struct {
		LoadBalancer Ref
		// Listener is the one whose default pool it becomes; the zero value for none.
		Listener Ref
		Pool     octavia.Pool
	}
	// UpdatePool sends all mutable fields of the pool itself, its tags unless they are nil. It
	// repairs a pool in ERROR, whose members and monitor cannot be changed before.
	UpdatePool struct {
		ID      string
		Pool    octavia.Pool
		Changes []string
	}
	// DeletePool also deletes its members and its monitor. A listener with this default pool then
	// has none.
	DeletePool struct{ ID, Name, Why string }
)

func (s CreatePool) String() string {
	text := "create pool " + poolText(s.Pool)
	if s.Listener != (Ref{}) {
		return text + " of listener " + s.Listener.String()
	}
	return text + " without a listener"
}

func (s CreatePool) details() []string { return tagDetails(s.Pool.Tags) }

func (s CreatePool) quota() string { return "pools" }

func (s CreatePool) chosen() []string { return octavia.Chosen(s.Pool) }

func (s CreatePool) predict(*predicted) bool { return false }

func (s CreatePool) take(ctx context.Context, r *run) error {
	lb, listener, err := r.findBoth(s.LoadBalancer, s.Listener)
	if err != nil {
		return err
	}
	return r.create(ctx, s.Pool.Name, func() (string, error) {
		return r.Octavia.CreatePool(ctx, lb, listener, s.Pool)
	})
}

func (s UpdatePool) String() string { return update("pool", s.ID, s.Pool.Name, s.Changes) }

func (s UpdatePool) onlyTags() bool { return areTags(s.Changes) }

func (s UpdatePool) chosen() []string { return octavia.Chosen(s.Pool) }

func (s UpdatePool) predict(c *predicted) bool {
	return c.pool(s.ID, func(p *octavia.Pool) bool {
		*p = octavia.FieldsOf[octavia.Pool]().Updated(*p, s.Pool)
		p.Status = octavia.Active
		return true
	})
}

func (s UpdatePool) take(ctx context.Context, r *run) error {
	return r.change(ctx, func() error { return r.Octavia.UpdatePool(ctx, s.ID, s.Pool) })
}

func (s DeletePool) String() string { return deletion("pool", s.ID, s.Name, s.Why) }

func (s DeletePool) deleted() string { return s.ID }

func (s DeletePool) predict(*predicted) bool { return false }

func (s DeletePool) take(ctx context.Context, r *run) error {
	return r.change(ctx, func() error { return r.Octavia.DeletePool(ctx, s.ID) })
}

func poolText(p octavia.Pool) string {
	text := fmt.Sprintf("%s (%s, %s", p.Name, p.Protocol, p.Algorithm)
	if p.Persistence != "" {
		text += ", persistence " + string(p.Persistence)
	}
	return text + ")"
}

func poolDetails(p octavia.Pool) []string {
	lines := []string{"pool " + poolText(p)}
	for _, line := range memberDetails(p.Members) {
		lines = append(lines, "  "+line)
	}
	if p.Monitor != nil {
		lines = append(lines, "  monitor "+monitorText(*p.Monitor))
	}
	return lines
}
