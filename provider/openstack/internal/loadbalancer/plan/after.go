package plan

import (
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// After predicts the contents of a load balancer after the steps. It returns nil if it cannot: the
// ID of a new object, or the contents before, are unknown.
func After(before *octavia.Contents, steps []Step) *octavia.Contents {
	if before == nil {
		return nil
	}
	now := predicted{slices.Clone(before.Listeners), slices.Clone(before.Pools)}
	for _, step := range steps {
		if !step.predict(&now) {
			return nil
		}
	}
	return &octavia.Contents{Listeners: now.listeners, Pools: now.pools}
}

// AfterCreation predicts the contents of a load balancer that was created with all its ports. It
// returns nil if an ID is unknown.
func AfterCreation(want desired.State, ids map[string]string) *octavia.Contents {
	made := AsWanted(want, nil)
	for i := range made.Listeners {
		l, p := &made.Listeners[i], &made.Pools[i]
		l.ID, p.ID = ids[l.Name], ids[p.Name]
		if l.ID == "" || p.ID == "" {
			return nil
		}
		l.PoolID = p.ID
		p.Members = slices.Clone(p.Members)
		for i := range p.Members {
			m := &p.Members[i]
			m.ID, m.Status = ids[octavia.MadeMember(p.Name, m.Key())], octavia.Active
		}
		if p.Monitor == nil {
			continue
		}
		monitor := *p.Monitor
		if monitor.ID = ids[monitor.Name]; monitor.ID == "" {
			return nil
		}
		monitor.Status = octavia.Active
		p.Monitor = &monitor
	}
	return &made
}

// AsWanted returns the contents of a load balancer that equals the desired state as far as its
// addresses allow; nil: a new one. Its names are used as IDs.
func AsWanted(want desired.State, lb *octavia.LoadBalancer) octavia.Contents {
	var c octavia.Contents
	for _, port := range limited(want.Ports, lb) {
		listener, pool := port.Listener, port.Pool
		listener.ID, pool.ID = listener.Name, pool.Name
		listener.PoolID = pool.ID
		listener.Status, pool.Status = octavia.Active, octavia.Active
		c.Listeners, c.Pools = append(c.Listeners, listener), append(c.Pools, pool)
	}
	return c
}

// predicted are the listeners and pools to which steps are applied.
type predicted struct {
	listeners []octavia.Listener
	pools     []octavia.Pool
}

// pool changes the pool with the ID; false if it does not exist.
func (c *predicted) pool(id string, change func(*octavia.Pool) bool) bool {
	i := slices.IndexFunc(c.pools, func(p octavia.Pool) bool { return id != "" && p.ID == id })
	return i >= 0 && change(&c.pools[i])
}

// member changes the member with the ID in a copy of the members; false if it does not exist.
func (c *predicted) member(
	pool, id string, change func(members []octavia.Member, i int) []octavia.Member,
) bool {
	return c.pool(pool, func(p *octavia.Pool) bool {
		i := slices.IndexFunc(p.Members, func(m octavia.Member) bool { return m.ID == id })
		if i < 0 {
			return false
		}
		p.Members = change(slices.Clone(p.Members), i)
		return true
	})
}
