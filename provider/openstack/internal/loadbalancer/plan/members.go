package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// memberDifference holds the differences between the existing and the desired members of a pool.
type memberDifference struct {
	// want are the desired members as requested.
	want   []octavia.Member
	create []octavia.Member
	change []memberChange
	remove []octavia.Member
}

type memberChange struct {
	is, want octavia.Member
	changes  differences
	// wholesale: some differences need a replacement of all members.
	wholesale bool
}

func differenceOf(want, is octavia.Pool, vipSubnet string) memberDifference {
	var d memberDifference
	there := map[octavia.MemberKey]octavia.Member{}
	for _, m := range is.Members {
		if m.Status != octavia.Deleted {
			there[m.Key()] = m
		}
	}
	d.want = requested(want.Members, there, vipSubnet)
	wanted := map[octavia.MemberKey]bool{}
	for i, m := range d.want {
		wanted[m.Key()] = true
		old, ok := there[m.Key()]
		if !ok {
			d.create = append(d.create, m)
			continue
		}
		if c := compareMember(want.Members[i], old, is.MembersInPart,
			vipSubnet); len(c.changes) > 0 {
			c.want = m
			c.want.ID = old.ID
			d.change = append(d.change, c)
		}
	}
	for _, m := range is.Members {
		if m.Status != octavia.Deleted && !wanted[m.Key()] {
			d.remove = append(d.remove, m)
		}
	}
	return d
}

// compareMember compares only the name of a member that is known in part.
func compareMember(want, is octavia.Member, inPart bool, vipSubnet string) memberChange {
	c := memberChange{is: is}
	c.changes.mend(is.Status)
	c.changes.compare("name", is.Name, want.Name)
	if inPart {
		return c
	}
	if want.SubnetID != "" && cmp.Or(want.SubnetID, vipSubnet) != cmp.Or(is.SubnetID, vipSubnet) {
		c.changes = append(c.changes, changed("subnet_id", is.SubnetID, want.SubnetID))
		c.wholesale = true
	}
	c.changes.compare("weight", is.Weight, want.Weight)
	c.changes.compare("monitor_port", number(is.MonitorPort), number(want.MonitorPort))
	c.changes.compare("backup", is.Backup, want.Backup)
	return c
}

// number returns "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// requested returns the members as requested: without the subnet of the VIP, because Octavia reads
// each named subnet from Neutron (see [octavia.Member]). The subnet of an existing member is named
// if it differs.
func requested(
	members []octavia.Member, there map[octavia.MemberKey]octavia.Member, vipSubnet string,
) []octavia.Member {
	if len(members) == 0 {
		return nil
	}
	asked := make([]octavia.Member, len(members))
	for i, m := range members {
		elsewhere := cmp.Or(there[m.Key()].SubnetID, vipSubnet) != vipSubnet
		if m.SubnetID == vipSubnet && !elsewhere {
			m.SubnetID = ""
		}
		asked[i] = m
	}
	return asked
}

// texts describes the differences for people: + is new, ~ is changed, - is removed.
func (d memberDifference) texts() []string {
	var texts []string
	for _, m := range d.create {
		texts = append(texts, "+ "+memberText(m))
	}
	for _, c := range d.change {
		texts = append(texts, "~ "+memberName(c.want)+": "+strings.Join(c.changes, ", "))
	}
	for _, m := range d.remove {
		texts = append(texts, "- "+memberName(m))
	}
	return texts
}

// single reports whether one request for one member resolves the difference.
func (d memberDifference) single() bool {
	if len(d.create)+len(d.change)+len(d.remove) != 1 {
		return false
	}
	for _, c := range d.change {
		if c.wholesale || c.is.ID == "" {
			return false
		}
	}
	for _, m := range d.remove {
		if m.ID == "" {
			return false
		}
	}
	return true
}

// setMembers replaces all members at once, or changes them one by one for a serial provider. It
// adds members before it removes others. A single difference is one request for one member, because
// Octavia counts each member of a batch as changed: so a node that joins a pool of a thousand is
// one change for Octavia.
func (p *ports) setMembers(pool Ref, name string, d memberDifference) {
	changes := d.texts()
	if len(changes) == 0 {
		return
	}
	if !p.want.Features.Serial && !d.single() {
		p.add(SetMembers{Pool: pool, PoolName: name, Members: d.want, Changes: changes})
		return
	}
	for _, m := range d.create {
		p.add(CreateMember{Pool: pool, PoolName: name, Member: m})
	}
	for _, c := range d.change {
		if c.wholesale {
			// Two members cannot have the same address and port, so the old one is deleted first.
			p.add(DeleteMember{pool.ID, name, c.is.ID, c.is.Name, strings.Join(c.changes, ", ")},
				CreateMember{Pool: pool, PoolName: name, Member: c.want})
			continue
		}
		p.add(UpdateMember{
			PoolID: pool.ID, PoolName: name, ID: c.is.ID, Member: c.want,
			Changes: c.changes,
		})
	}
	for _, m := range d.remove {
		p.add(DeleteMember{pool.ID, name, m.ID, m.Name, "not wanted any more"})
	}
}
