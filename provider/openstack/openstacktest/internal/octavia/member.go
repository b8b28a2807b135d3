package octavia

import (
	"cmp"
	"net/http"
	"net/netip"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func createMember(r *request) (answer, error) {
	s, t, p := r.octavia, r.tree, r.pool
	m, err := readNew(s.types.member, r.given, r.kind.argument, "project_id", "tenant_id")
	if err != nil {
		return answer{}, err
	}
	if err := cmp.Or(
		admitMember(m),
		s.admitMemberSubnet(r.Caller, m),
		s.admitMore(t.ProjectID, QuotaMember, 1),
		t.admitFamily(m),
		t.mutablePool(p),
		admitAddress(m, p.Members),
	); err != nil {
		return answer{}, err
	}
	s.apply(t, p, batch{added: []Member{*m}})
	return r.created(target{tree: t, pool: p, member: last(p.Members)}), nil
}

// admitMemberSubnet requires that the subnet of a new member exists.
func (s *Service) admitMemberSubnet(c api.Caller, m *Member) error {
	if m.SubnetID == "" {
		return nil
	}
	_, err := s.subnetFor(c, m.SubnetID)
	return err
}

func updateMember(r *request) (answer, error) {
	return update(r, r.octavia.types.member, r.member,
		func(*Member) error { return r.tree.mutablePool(r.pool) })
}

func deleteMember(r *request) (answer, error) {
	t, p := r.tree, r.pool
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	r.octavia.apply(t, p, batch{deleted: []*Member{r.member}})
	return api.NoContent(), nil
}

// batch is a change of the members of a pool (MembersController.put).
type batch struct {
	added   []Member
	changed map[*Member]Member
	deleted []*Member
}

// updateMembers replaces the members of a pool by those of the body. It changes existing ones, by
// address and port.
func updateMembers(r *request) (answer, error) {
	s, t, p := r.octavia, r.tree, r.pool
	var all body
	if err := decode(r, &all); err != nil {
		return answer{}, err
	}
	if !present(all, "members") {
		return answer{}, badInput("members", "None", "Mandatory field missing.")
	}
	given, err := objects(all, "members")
	if err != nil {
		return answer{}, err
	}
	b, err := s.batch(p, given)
	if err != nil {
		return answer{}, err
	}
	if isTrue(r.Query.Get("additive_only")) {
		b.deleted = nil
	}
	if err := cmp.Or(t.mutablePool(p), s.admitMembers(r.Caller, t, p, b)); err != nil {
		return answer{}, err
	}
	// An empty change locks no resource.
	if len(b.added)+len(b.changed)+len(b.deleted) > 0 {
		s.apply(t, p, b)
	}
	return answer{Status: http.StatusAccepted}, nil
}

// batch compares the members of the body with the pool's. An attribute of an existing member that
// the body omits gets its default, except name, subnet and tags: the body's type is that of a
// creation. Octavia refuses a repeated member since 2023.
func (s *Service) batch(p *Pool, given []body) (batch, error) {
	b := batch{changed: map[*Member]Member{}}
	for _, fields := range given {
		m, err := readNew(s.types.member, fields, "members_.members", "project_id", "tenant_id")
		if err != nil {
			return b, err
		}
		old := p.memberAt(m.Address, m.ProtocolPort)
		if old == nil {
			b.added = append(b.added, *m)
			continue
		}
		if _, repeated := b.changed[old]; repeated {
			return b, invalid("Member must be updated only once in the same request.")
		}
		b.changed[old] = merged(*old, *m, fields)
	}
	for m := range each(p.Members) {
		if _, kept := b.changed[m]; !kept {
			b.deleted = append(b.deleted, m)
		}
	}
	return b, nil
}

func (p *Pool) memberAt(address string, port int) *Member {
	for m := range each(p.Members) {
		if m.Address == address && m.ProtocolPort == port {
			return m
		}
	}
	return nil
}

func merged(old, given Member, fields body) Member {
	row := old.OctaviaResource
	row.Down = given.Down
	if _, has := fields["name"]; has {
		row.Name = given.Name
	}
	if _, has := fields["tags"]; has {
		row.Tags = given.Tags
	}
	if _, has := fields["subnet_id"]; !has {
		given.SubnetID = old.SubnetID
	}
	given.OctaviaResource = row
	return given
}

func (s *Service) admitMembers(c api.Caller, t *tree, p *Pool, b batch) error {
	more := len(b.added) - len(b.deleted)
	if err := s.admitMore(t.ProjectID, QuotaMember, more); err != nil {
		return err
	}
	for i := range b.added {
		m := &b.added[i]
		if err := cmp.Or(s.admitMemberSubnet(c, m), admitAddress(m, b.added[:i]), admitMember(m),
			t.admitFamily(m), admitAddress(m, p.Members)); err != nil {
			return err
		}
	}
	return nil
}

// admitFamily refuses members of another family than the VIPs', if all of those have one, as OVN's
// provider does (ovn_octavia_provider/driver.py, _ip_version_differs).
func (t *tree) admitFamily(m *Member) error {
	address, err := netip.ParseAddr(m.Address)
	if t.Provider != providerOVN || err != nil {
		return nil
	}
	vips := []string{t.VIPAddress}
	for _, vip := range t.AdditionalVIPs {
		vips = append(vips, vip.Address)
	}
	for _, vip := range vips {
		if of, err := netip.ParseAddr(vip); err != nil || of.Is4() == address.Is4() {
			return nil
		}
	}
	return api.Refuse(http.StatusNotImplemented, "Provider '%s' does not support a requested "+
		"option: OVN provider does not support mixing IPv4/IPv6 configuration within the same "+
		"Load Balancer.", t.Provider)
}

// apply changes the members. The amphorae get ports in the subnets of all members, also of
// unchanged ones (network_tasks.CalculateDelta).
func (s *Service) apply(t *tree, p *Pool, b batch) {
	now := s.Clock.Now()
	for m, changed := range b.changed {
		*m = changed
		t.set(&m.OctaviaResource, StatusPendingUpdate, now)
	}
	for _, m := range b.deleted {
		t.set(&m.OctaviaResource, StatusPendingDelete, now)
	}
	for m := range each(b.added) {
		s.add(t, &m.OctaviaResource)
	}
	p.Members = append(p.Members, b.added...)
	t.pendPool(p, now)
	t.doomed = s.lacksSubnet(t)
	s.startWork(t, StatusPendingUpdate)
}
