package octavia

import (
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listMembers(r *request) (answer, error) {
	_, p, err := poolOfMembers(r)
	if err != nil {
		return answer{}, err
	}
	view, items := viewOf(r), []listItem{}
	for _, m := range p.members {
		items = append(items, listItem{view.member(m), map[string]string{"pool_id": p.ID}})
	}
	return list(r, "members", filterable(memberFields(), view.minor), items, "pool_id")
}

// poolOfMembers finds the pool on the way to its members, where an unknown pool
// has another error (PoolsController._lookup).
func poolOfMembers(r *request) (*tree, *poolTree, error) {
	t, p, err := findPool(r, r.PathValue("id"))
	if p == nil {
		err = refuseEarly(http.StatusNotFound, "%s", err)
	}
	return t, p, err
}

func findMember(r *request) (*tree, *poolTree, *Member, error) {
	t, p, err := poolOfMembers(r)
	if err != nil {
		return nil, nil, nil, err
	}
	m := p.member(r.PathValue("member"))
	if m == nil {
		return nil, nil, nil, notFound("Member", r.PathValue("member"))
	}
	return t, p, m, nil
}

func getMember(r *request) (answer, error) {
	_, _, m, err := findMember(r)
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"member": selectFields(viewOf(r).member(m), r.Query["fields"])}), nil
}

func createMember(r *request) (answer, error) {
	t, p, err := poolOfMembers(r)
	if err != nil {
		return answer{}, err
	}
	given, err := bodyOf(r, "member")
	if err != nil {
		return answer{}, err
	}
	s, view, m := r.octavia, viewOf(r), newMember()
	if err := memberFields().read(m, given, true, view.minor, "member_.member", "project_id",
		"tenant_id"); err != nil {
		return answer{}, err
	}
	if err := admitMember(m); err != nil {
		return answer{}, err
	}
	if err := s.admitMemberSubnet(r.Caller, m); err != nil {
		return answer{}, err
	}
	if err := s.admitMore(t.ProjectID, QuotaMember, "Member", 1); err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	if err := s.admitMemberOf(t, p, m); err != nil {
		return answer{}, err
	}
	s.add(t, &m.OctaviaResource)
	p.members = append(p.members, m)
	t.pendPool(p, s.Clock.Now())
	s.startPlumbing(t)
	return api.Created(object{"member": view.member(m)}), nil
}

// admitMemberSubnet: the subnet of a new member must be there.
func (s *Service) admitMemberSubnet(c api.Caller, m *Member) error {
	if m.SubnetID == "" {
		return nil
	}
	_, err := s.subnetFor(c, m.SubnetID)
	return err
}

// admitMemberOf checks a new member.
func (s *Service) admitMemberOf(t *tree, p *poolTree, m *Member) error {
	if err := admitMember(m); err != nil {
		return err
	}
	if err := admitAddress(m, p.members); err != nil {
		return err
	}
	return s.options.provider(t.Provider).admitMember(m, t.addresses(), s.vipSubnet(t))
}

func updateMember(r *request) (answer, error) {
	given, err := bodyOf(r, "member")
	if err != nil {
		return answer{}, err
	}
	t, p, m, err := findMember(r)
	if err != nil {
		return answer{}, err
	}
	s, view, changed := r.octavia, viewOf(r), *m
	if err := memberFields().read(&changed, given, false, view.minor,
		"member_.member"); err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	if err := s.options.provider(t.Provider).admitMember(&changed, t.addresses(),
		s.vipSubnet(t)); err != nil {
		return answer{}, err
	}
	now := s.Clock.Now()
	*m = changed
	t.set(&m.OctaviaResource, StatusPendingUpdate, now)
	t.pendPool(p, now)
	s.startWork(t, StatusPendingUpdate)
	return api.OK(object{"member": view.member(m)}), nil
}

func deleteMember(r *request) (answer, error) {
	t, p, m, err := findMember(r)
	if err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	now := r.octavia.Clock.Now()
	t.set(&m.OctaviaResource, StatusPendingDelete, now)
	t.pendPool(p, now)
	r.octavia.startPlumbing(t)
	return api.NoContent(), nil
}

// batch is what a change of all members comes to (MembersController.put).
type batch struct {
	added   []*Member
	changed map[*Member]Member
	deleted []*Member
}

// updateMembers makes the pool's members those of the body; existing ones, by address and
// port, are changed.
func updateMembers(r *request) (answer, error) {
	s, additive := r.octavia, isTrue(r.Query.Get("additive_only"))
	t, p, err := poolOfMembers(r)
	if err != nil {
		return answer{}, err
	}
	given, err := membersOf(r)
	if err != nil {
		return answer{}, err
	}
	b, err := p.batch(given, viewOf(r).minor)
	if err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	if additive {
		b.deleted = nil
	}
	if len(b.added)+len(b.changed)+len(b.deleted) == 0 {
		// Octavia locks nothing then.
		return answer{Status: http.StatusAccepted}, nil
	}
	if err := s.admitMembers(r.Caller, t, p, b); err != nil {
		return answer{}, err
	}
	s.apply(t, p, b)
	return answer{Status: http.StatusAccepted}, nil
}

func membersOf(r *request) ([]map[string]json.RawMessage, error) {
	var body map[string]json.RawMessage
	if err := r.Decode(&body); err != nil {
		return nil,
			refuse(http.StatusBadRequest, "Request is not in valid JSON format: %s", err)
	}
	if !present(body, "members") {
		return nil,
			refuse(http.StatusInternalServerError, "'UnsetType' object is not iterable")
	}
	return objects(body, "members")
}

// batch compares the members of the body with the pool's. A value that the body does not give for
// an existing member is set back to its default, but for name, subnet and tags: the body's type is
// that of a creation.
//
// A member that is in the body twice is refused since 2023. Before that it is taken, and the work
// on it never ends: the load balancer stays PENDING_UPDATE.
func (p *poolTree) batch(given []map[string]json.RawMessage, minor int) (batch, error) {
	b := batch{changed: map[*Member]Member{}}
	kept := map[*Member]bool{}
	for _, fields := range given {
		m := newMember()
		if err := memberFields().read(m, fields, true, minor, "members_.members", "project_id",
			"tenant_id"); err != nil {
			return b, err
		}
		old := p.memberAt(m.Address, m.ProtocolPort)
		if old == nil {
			b.added = append(b.added, m)
			continue
		}
		if kept[old] {
			return b, invalid("Member must be updated only once in the same request.")
		}
		kept[old] = true
		b.changed[old] = merged(*old, *m, fields)
	}
	for _, m := range p.members {
		if !kept[m] {
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
	resource := old.OctaviaResource
	resource.Down = given.Down
	if _, present := fields["name"]; present {
		resource.Name = given.Name
	}
	if _, present := fields["tags"]; present {
		resource.Tags = given.Tags
	}
	if _, present := fields["subnet_id"]; !present {
		given.SubnetID = old.SubnetID
	}
	given.OctaviaResource = resource
	return given
}

func (s *Service) admitMembers(c api.Caller, t *tree, p *poolTree, b batch) error {
	provider := s.options.provider(t.Provider)
	more := len(b.added) - len(b.deleted)
	if err := s.admitMore(t.ProjectID, QuotaMember, "Member", more); err != nil {
		return err
	}
	for i, m := range b.added {
		if err := s.admitMemberSubnet(c, m); err != nil {
			return err
		}
		if err := admitAddress(m, b.added[:i]); err != nil {
			return err
		}
		if err := s.admitMemberOf(t, p, m); err != nil {
			return err
		}
	}
	for _, m := range b.changed {
		if err := provider.admitMember(&m, t.addresses(), s.vipSubnet(t)); err != nil {
			return err
		}
	}
	return provider.admitBatch()
}

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
	s.startPlumbing(t)
}

// startPlumbing is startWork for members that come and go: the amphorae are put into their subnets,
// those of the members that stay, too (network_tasks.CalculateDelta).
func (s *Service) startPlumbing(t *tree) {
	t.doomed = s.lacksSubnet(t)
	s.startWork(t, StatusPendingUpdate)
}
