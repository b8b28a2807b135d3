package plan

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

type (
	// SetMembers replaces all members of a pool.
	SetMembers struct {
		Pool     Ref
		PoolName string
		Members  []octavia.Member
		Changes  []string
		// Removed are the present members if none is to stay.
		Removed []octavia.Member
	}
	// CreateMember, UpdateMember and DeleteMember are for single differences, and for providers
	// that change members one by one.
	CreateMember struct {
		Pool     Ref
		PoolName string
		Member   octavia.Member
	}
	UpdateMember struct {
		PoolID, PoolName, ID string
		Member               octavia.Member
		Changes              []string
	}
	DeleteMember struct{ PoolID, PoolName, ID, Name, Why string }
)

func (s SetMembers) String() string {
	return fmt.Sprintf("set the %d members of pool %s: %s", len(s.Members), s.PoolName,
		listed(s.Changes))
}

func (s SetMembers) details() []string { return memberDetails(s.Members) }

func (s SetMembers) quota() string { return "members" }

func (s SetMembers) chosen() []string { return octavia.Chosen(s.Members...) }

func (s SetMembers) predict(c *predicted) bool {
	return c.pool(s.Pool.ID, func(p *octavia.Pool) bool {
		p.Members, p.MembersInPart = replaced(p.Members, s.Members), false
		return true
	})
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

// take deletes the members one by one if Octavia fails with an empty batch, as old ones do.
func (s SetMembers) take(ctx context.Context, r *run) error {
	err := r.changeIn(ctx, s.Pool,
		func(pool string) error { return r.Octavia.SetMembers(ctx, pool, s.Members) })
	f := failure.Of(err)
	if f == nil || f.Status != http.StatusInternalServerError || len(s.Members) > 0 {
		return err
	}
	for _, m := range s.Removed {
		if err := r.changeIn(ctx, s.Pool, func(pool string) error {
			return r.Octavia.DeleteMember(ctx, pool, m.ID)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s CreateMember) String() string {
	return fmt.Sprintf("create member %s of pool %s", memberText(s.Member), s.PoolName)
}

func (s CreateMember) quota() string { return "members" }

func (s CreateMember) chosen() []string { return octavia.Chosen(s.Member) }

func (s CreateMember) predict(c *predicted) bool {
	return c.pool(s.Pool.ID, func(p *octavia.Pool) bool {
		m := s.Member
		m.Status = octavia.Active
		p.Members = append(slices.Clip(p.Members), m)
		return true
	})
}

func (s CreateMember) take(ctx context.Context, r *run) error {
	return r.changeIn(ctx, s.Pool, func(pool string) (err error) {
		s.Member.ID, err = r.Octavia.CreateMember(ctx, pool, s.Member)
		r.step = s
		return err
	})
}

func (s UpdateMember) String() string {
	return fmt.Sprintf("update member %s (%s) of pool %s: %s", s.ID, memberName(s.Member),
		s.PoolName, listed(s.Changes))
}

func (s UpdateMember) chosen() []string { return octavia.Chosen(s.Member) }

func (s UpdateMember) predict(c *predicted) bool {
	return c.member(s.PoolID, s.ID, func(members []octavia.Member, i int) []octavia.Member {
		members[i] = octavia.FieldsOf[octavia.Member]().Updated(members[i], s.Member)
		members[i].Status = octavia.Active
		return members
	})
}

func (s UpdateMember) take(ctx context.Context, r *run) error {
	return r.change(ctx,
		func() error { return r.Octavia.UpdateMember(ctx, s.PoolID, s.ID, s.Member) })
}

func (s DeleteMember) String() string {
	return fmt.Sprintf("delete member %s (%s) of pool %s%s", s.ID, s.Name, s.PoolName,
		because(s.Why))
}

func (s DeleteMember) predict(c *predicted) bool {
	return c.member(s.PoolID, s.ID, func(members []octavia.Member, i int) []octavia.Member {
		return slices.Delete(members, i, i+1)
	})
}

func (s DeleteMember) take(ctx context.Context, r *run) error {
	return r.change(ctx, func() error { return r.Octavia.DeleteMember(ctx, s.PoolID, s.ID) })
}

// memberDetails returns the members in an order of their own: Octavia lists them in none.
func memberDetails(members []octavia.Member) []string {
	var lines []string
	for _, m := range members {
		lines = append(lines, "member "+memberText(m))
	}
	slices.Sort(lines)
	return lines
}

func memberName(m octavia.Member) string {
	return fmt.Sprintf("%s %s port %d", m.Name, m.Address, m.Port)
}

func memberText(m octavia.Member) string {
	text := memberName(m)
	if m.SubnetID != "" {
		text += ", subnet " + m.SubnetID
	}
	if m.Weight != 1 {
		text += fmt.Sprintf(", weight %d", m.Weight)
	}
	if m.MonitorPort != 0 {
		text += fmt.Sprintf(", monitor port %d", m.MonitorPort)
	}
	if m.Backup {
		text += ", backup"
	}
	return text
}
