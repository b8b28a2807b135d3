package octavia

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// readMember reads a member of a creation.
func (s *Service) readMember(
	given map[string]json.RawMessage, path wsme, handled ...string,
) (*Member, error) {
	m := &Member{}
	s.types.member.Complete(m)
	return m, s.types.member.Read(m, given, true, path, handled...)
}

func createMember(r *request) (answer, error) {
	s, t, p := r.octavia, r.tree, r.pool
	m, err := s.readMember(r.given, "member_.member", "project_id", "tenant_id")
	if err != nil {
		return answer{}, err
	}
	if err := cmp.Or(
		admitMember(m),
		s.admitMemberSubnet(r.Caller, m),
		s.admitMore(t.ProjectID, QuotaMember, "Member", 1),
		t.mutablePool(p),
		s.admitMemberOf(t, p, m),
	); err != nil {
		return answer{}, err
	}
	s.apply(t, p, batch{added: []*Member{m}})
	return api.Created(object{"member": s.types.member.Show(m)}), nil
}

// admitMemberSubnet requires that the subnet of a new member exists.
func (s *Service) admitMemberSubnet(c api.Caller, m *Member) error {
	if m.SubnetID == "" {
		return nil
	}
	_, err := s.subnetFor(c, m.SubnetID)
	return err
}

// admitMemberOf checks a new member.
func (s *Service) admitMemberOf(t *tree, p *poolTree, m *Member) error {
	return cmp.Or(admitMember(m), admitAddress(m, p.members), s.admitByDriver(t, m))
}

func (s *Service) admitByDriver(t *tree, m *Member) error {
	return driverOf(t.Provider).admitMember(m, t.addresses(), s.vipSubnet(t))
}

func updateMember(r *request) (answer, error) {
	s, t, p, m := r.octavia, r.tree, r.pool, r.member
	changed := *m
	if err := s.types.member.Read(&changed, r.given, false, wsme("member_.member")); err != nil {
		return answer{}, err
	}
	if err := cmp.Or(t.mutablePool(p), s.admitByDriver(t, &changed)); err != nil {
		return answer{}, err
	}
	*m = changed
	s.work(t, p, &m.OctaviaResource, StatusPendingUpdate)
	return api.OK(object{"member": s.types.member.Show(m)}), nil
}

func deleteMember(r *request) (answer, error) {
	t, p, m := r.tree, r.pool, r.member
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	r.octavia.apply(t, p, batch{deleted: []*Member{m}})
	return api.NoContent(), nil
}

// batch is a change of the members of a pool (MembersController.put).
type batch struct {
	added   []*Member
	changed map[*Member]Member
	deleted []*Member
}

// updateMembers replaces the members of a pool by those of the body. It changes existing ones, by
// address and port.
func updateMembers(r *request) (answer, error) {
	s, t, p := r.octavia, r.tree, r.pool
	var body map[string]json.RawMessage
	if err := r.Decode(&body); err != nil {
		return answer{}, malformed(err)
	}
	if !present(body, "members") {
		return answer{}, badInput("members", "None", "Mandatory field missing.")
	}
	given, err := objects(body, "members")
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
func (s *Service) batch(p *poolTree, given []map[string]json.RawMessage) (batch, error) {
	b := batch{changed: map[*Member]Member{}}
	for _, fields := range given {
		m, err := s.readMember(fields, "members_.members", "project_id", "tenant_id")
		if err != nil {
			return b, err
		}
		old := p.memberAt(m.Address, m.ProtocolPort)
		if old == nil {
			b.added = append(b.added, m)
			continue
		}
		if _, repeated := b.changed[old]; repeated {
			return b, invalid("Member must be updated only once in the same request.")
		}
		b.changed[old] = merged(*old, *m, fields)
	}
	for _, m := range p.members {
		if _, kept := b.changed[m]; !kept {
			b.deleted = append(b.deleted, m)
		}
	}
	return b, nil
}

func (p *poolTree) memberAt(address string, port int) *Member {
	for _, m := range p.members {
		if m.Address == address && m.ProtocolPort == port {
			return m
		}
	}
	return nil
}

func merged(old, given Member, fields map[string]json.RawMessage) Member {
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

func (s *Service) admitMembers(c api.Caller, t *tree, p *poolTree, b batch) error {
	more := len(b.added) - len(b.deleted)
	if err := s.admitMore(t.ProjectID, QuotaMember, "Member", more); err != nil {
		return err
	}
	for i, m := range b.added {
		if err := cmp.Or(s.admitMemberSubnet(c, m), admitAddress(m, b.added[:i]),
			s.admitMemberOf(t, p, m)); err != nil {
			return err
		}
	}
	for _, m := range b.changed {
		if err := s.admitByDriver(t, &m); err != nil {
			return err
		}
	}
	return nil
}

// apply changes the members. The amphorae get ports in the subnets of all members, also of
// unchanged ones (network_tasks.CalculateDelta).
func (s *Service) apply(t *tree, p *poolTree, b batch) {
	now := s.Clock.Now()
	for m, changed := range b.changed {
		*m = changed
		t.set(&m.OctaviaResource, StatusPendingUpdate, now)
	}
	for _, m := range b.deleted {
		t.set(&m.OctaviaResource, StatusPendingDelete, now)
	}
	for _, m := range b.added {
		s.add(t, &m.OctaviaResource)
		p.members = append(p.members, m)
	}
	t.pendPool(p, now)
	t.doomed = s.lacksSubnet(t)
	s.startWork(t, StatusPendingUpdate)
}
