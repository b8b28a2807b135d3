package loadbalancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// contents are the listeners and pools of a load balancer, whoever made them.
type contents struct {
	listeners []balancer.Listener
	pools     []balancer.Pool
}

// below is that part of a wish which is about what lies below the load balancer, and about the security group. All else is compared in
// each pass, for it costs no request.
func below(d balancer.Desired) balancer.Desired {
	d.LoadBalancer, d.FloatingIP = balancer.LoadBalancer{}, nil
	return d
}

// asWished are the contents of a load balancer of which nothing has changed since all was carried out.
func asWished(d balancer.Desired) contents {
	var c contents
	for _, port := range d.Ports {
		listener, pool := port.Listener, port.Pool
		listener.ID, pool.ID = listener.Name, pool.Name
		listener.PoolID = pool.ID
		listener.Status, pool.Status = balancer.Active, balancer.Active
		c.listeners, c.pools = append(c.listeners, listener), append(c.pools, pool)
	}
	return c
}

// made are the contents of a load balancer that was made with all that was wished. Nil: not all ids are known.
func made(d balancer.Desired, ids map[string]string) *contents {
	c := asWished(d)
	for i := range c.listeners {
		l, p := &c.listeners[i], &c.pools[i]
		l.ID, p.ID = ids[l.Name], ids[p.Name]
		if l.ID == "" || p.ID == "" {
			return nil
		}
		l.PoolID = p.ID
		p.Members = slices.Clone(p.Members)
		for i := range p.Members {
			m := &p.Members[i]
			m.ID, m.Status = ids[balancer.MadeMember(p.Name, m.Key())], balancer.Active
		}
		if p.Monitor == nil {
			continue
		}
		monitor := *p.Monitor
		if monitor.ID = ids[monitor.Name]; monitor.ID == "" {
			return nil
		}
		monitor.Status = balancer.Active
		p.Monitor = &monitor
	}
	return &c
}

// after are the contents when steps have been taken. Nil: they cannot be told, for something was made or deleted whose id is not known.
func (c *contents) after(steps []plan.Step) *contents {
	if c == nil {
		return nil
	}
	now := contents{slices.Clone(c.listeners), slices.Clone(c.pools)}
	for _, step := range steps {
		if !now.take(step) {
			return nil
		}
	}
	return &now
}

// take does what a step does. False: it cannot be told.
func (c *contents) take(step plan.Step) bool {
	switch s := step.(type) {
	case plan.SetMembers:
		i := c.pool(s.Pool.ID)
		if i < 0 {
			return false
		}
		c.pools[i].Members, c.pools[i].MembersInPart = replaced(c.pools[i].Members, s.Members), false
		return true
	case plan.CreateMember:
		i := c.pool(s.Pool.ID)
		if i < 0 {
			return false
		}
		m := s.Member
		m.Status = balancer.Active
		c.pools[i].Members = append(slices.Clip(c.pools[i].Members), m)
		return true
	case plan.UpdateMember:
		return c.member(s.PoolID, s.ID, func(members []balancer.Member, i int) []balancer.Member {
			was := members[i]
			members[i] = s.Member
			members[i].ID, members[i].SubnetID, members[i].Status = was.ID, was.SubnetID, balancer.Active
			return members
		})
	case plan.DeleteMember:
		return c.member(s.PoolID, s.ID, func(members []balancer.Member, i int) []balancer.Member {
			return slices.Delete(members, i, i+1)
		})
	case plan.UpdateListener:
		i := slices.IndexFunc(c.listeners, func(l balancer.Listener) bool { return l.ID == s.ID })
		if i < 0 || s.Pool.Made != "" {
			return false
		}
		was := c.listeners[i]
		c.listeners[i] = s.Listener
		now := &c.listeners[i]
		now.ID, now.PoolID, now.Status = was.ID, cmp.Or(s.Pool.ID, was.PoolID), balancer.Active
		now.Name, now.Tags = cmp.Or(now.Name, was.Name), orElse(now.Tags, was.Tags)
		now.AllowedCIDRs = orElse(now.AllowedCIDRs, was.AllowedCIDRs)
		return true
	case plan.UpdatePool:
		i := c.pool(s.ID)
		if i < 0 {
			return false
		}
		c.pools[i].Algorithm, c.pools[i].Persistence, c.pools[i].Status = s.Pool.Algorithm, s.Pool.Persistence, balancer.Active
		return true
	case plan.UpdateLoadBalancer,
		plan.CreateFloatingIP, plan.AttachFloatingIP, plan.DetachFloatingIP, plan.DeleteFloatingIP, plan.TagFloatingIP,
		plan.CreateSecurityGroup, plan.TagSecurityGroup, plan.CreateRule, plan.DeleteRule, plan.AddGroup, plan.RemoveGroup, plan.DeleteSecurityGroup:
		return true
	}
	return false
}

func (c *contents) pool(id string) int {
	return slices.IndexFunc(c.pools, func(p balancer.Pool) bool { return id != "" && p.ID == id })
}

// member changes a copy of the members of a pool, of which one has the id. False: none has.
func (c *contents) member(pool, id string, change func(members []balancer.Member, i int) []balancer.Member) bool {
	p := c.pool(pool)
	if p < 0 {
		return false
	}
	m := slices.IndexFunc(c.pools[p].Members, func(m balancer.Member) bool { return m.ID == id })
	if m < 0 {
		return false
	}
	c.pools[p].Members = change(slices.Clone(c.pools[p].Members), m)
	return true
}

// replaced are the members after a request for all of them. New ones have an id that is not known.
func replaced(was, now []balancer.Member) []balancer.Member {
	ids := make(map[balancer.MemberKey]string, len(was))
	for _, m := range was {
		ids[m.Key()] = m.ID
	}
	now = slices.Clone(now)
	for i := range now {
		now[i].ID, now[i].Status = ids[now[i].Key()], balancer.Active
	}
	return now
}

func orElse[T any](items, otherwise []T) []T {
	if items == nil {
		return otherwise
	}
	return items
}

// hidden is that of members and monitors which a status tree does not show, but for which members there are: equal for two wishes of which
// one can be compared with what a tree shows of the other.
func hidden(d balancer.Desired) string {
	var kinds []string
	for _, port := range d.Ports {
		if m := port.Pool.Monitor; m != nil {
			kinds = append(kinds, fmt.Sprint(port.Name, " monitor ", m.Delay, m.Timeout, m.MaxRetries, m.MaxRetriesDown, m.HTTPMethod, m.URLPath, m.ExpectedCodes))
		}
		for _, m := range port.Pool.Members {
			kinds = append(kinds, fmt.Sprint(port.Name, m.MonitorPort, m.SubnetID))
			if m.Weight != 1 {
				kinds = append(kinds, fmt.Sprint(port.Name, m.Address, m.Weight))
			}
		}
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ";") + "."
}
