package plan

import (
	"cmp"
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
		if !now.take(step) {
			return nil
		}
	}
	return &octavia.Contents{Listeners: now.listeners, Pools: now.pools}
}

// AfterCreation predicts the contents of a load balancer that was created with all its ports. It
// returns nil if an ID is unknown.
func AfterCreation(want desired.State, ids map[string]string) *octavia.Contents {
	made := AsWanted(want)
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

// AsWanted returns the contents of a load balancer that equals the desired state. Its names are
// used as IDs.
func AsWanted(want desired.State) octavia.Contents {
	var c octavia.Contents
	for _, port := range want.Ports {
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

// take applies a step. It returns false if the result cannot be predicted.
func (c *predicted) take(step Step) bool {
	switch s := step.(type) {
	case SetMembers:
		i := c.pool(s.Pool.ID)
		if i < 0 {
			return false
		}
		c.pools[i].Members, c.pools[i].MembersInPart = replaced(c.pools[i].Members, s.Members),
			false
		return true
	case CreateMember:
		i := c.pool(s.Pool.ID)
		if i < 0 {
			return false
		}
		m := s.Member
		m.Status = octavia.Active
		c.pools[i].Members = append(slices.Clip(c.pools[i].Members), m)
		return true
	case UpdateMember:
		return c.member(s.PoolID, s.ID, func(members []octavia.Member, i int) []octavia.Member {
			was := members[i]
			members[i] = s.Member
			members[i].ID, members[i].SubnetID, members[i].Status = was.ID, was.SubnetID,
				octavia.Active
			return members
		})
	case DeleteMember:
		return c.member(s.PoolID, s.ID, func(members []octavia.Member, i int) []octavia.Member {
			return slices.Delete(members, i, i+1)
		})
	case UpdateListener:
		i := slices.IndexFunc(c.listeners, func(l octavia.Listener) bool { return l.ID == s.ID })
		if i < 0 || s.Pool.Made != "" {
			return false
		}
		was := c.listeners[i]
		c.listeners[i] = s.Listener
		now := &c.listeners[i]
		now.ID, now.PoolID, now.Status = was.ID, cmp.Or(s.Pool.ID, was.PoolID), octavia.Active
		now.Name, now.Tags = cmp.Or(now.Name, was.Name), orElse(now.Tags, was.Tags)
		now.AllowedCIDRs = orElse(now.AllowedCIDRs, was.AllowedCIDRs)
		return true
	case UpdatePool:
		i := c.pool(s.ID)
		if i < 0 {
			return false
		}
		c.pools[i].Algorithm, c.pools[i].Persistence, c.pools[i].Status = s.Pool.Algorithm,
			s.Pool.Persistence, octavia.Active
		return true
	case UpdateLoadBalancer,
		CreateFloatingIP, AttachFloatingIP, DetachFloatingIP, DeleteFloatingIP, TagFloatingIP,
		CreateSecurityGroup, TagSecurityGroup, CreateRule, DeleteRule, AddGroup, RemoveGroup,
		DeleteSecurityGroup:
		return true
	}
	return false
}

func (c *predicted) pool(id string) int {
	return slices.IndexFunc(c.pools, func(p octavia.Pool) bool { return id != "" && p.ID == id })
}

// member changes the member with the ID in a copy of the members; false if it does not exist.
func (c *predicted) member(
	pool, id string, change func(members []octavia.Member, i int) []octavia.Member,
) bool {
	p := c.pool(pool)
	if p < 0 {
		return false
	}
	m := slices.IndexFunc(c.pools[p].Members, func(m octavia.Member) bool { return m.ID == id })
	if m < 0 {
		return false
	}
	c.pools[p].Members = change(slices.Clone(c.pools[p].Members), m)
	return true
}

// replaced returns the members after a request for all of them. New ones have no ID yet.
func replaced(was, now []octavia.Member) []octavia.Member {
	ids := make(map[octavia.MemberKey]string, len(was))
	for _, m := range was {
		ids[m.Key()] = m.ID
	}
	now = slices.Clone(now)
	for i := range now {
		now[i].ID, now[i].Status = ids[now[i].Key()], octavia.Active
	}
	return now
}

func orElse[T any](items, otherwise []T) []T {
	if items == nil {
		return otherwise
	}
	return items
}
