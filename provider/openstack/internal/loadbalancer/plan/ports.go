package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// slot is a port of the Service with its existing listener and pools.
type slot struct {
	want octavia.Port
	// listener may be nil.
	listener *octavia.Listener
	// pool is the existing pool to use; nil if one must be created. It is the listener's default
	// pool, or left by an interrupted plan.
	pool *octavia.Pool
	// old is a pool that is to be replaced; nil for none.
	old *octavia.Pool
}

// isNew reports whether the listener does not exist yet.
func (s *slot) isNew() bool { return s.listener == nil }

// isOther reports whether the listener must be replaced, because its protocol cannot be changed.
func (s *slot) isOther() bool {
	return s.listener != nil && s.listener.Protocol != s.want.Listener.Protocol
}

// isAside reports whether the pool is not the listener's default pool yet.
func (s *slot) isAside() bool {
	return s.pool != nil && (s.listener == nil || s.listener.PoolID != s.pool.ID)
}

// ports plans the listeners and their parts.
func (c *changer) ports(loadBalancer Ref) {
	p := &ports{changer: c, loadBalancer: loadBalancer, taken: map[string]bool{}}
	slots := p.assign()
	for _, s := range slots {
		p.update(s)
	}
	p.remove(slots)
	for _, s := range slots {
		p.create(s)
	}
}

type ports struct {
	*changer
	loadBalancer Ref
	// taken are the IDs of the pools that the ports use, or are about to leave.
	taken map[string]bool
}

// assign finds the existing objects of each port. It leaves out a port that another owner's
// listener has.
func (p *ports) assign() []*slot {
	there := map[octavia.ListenerKey]*octavia.Listener{}
	for i := range p.is.Listeners {
		if l := &p.is.Listeners[i]; l.Status != octavia.Deleted {
			there[l.Key()] = l
		}
	}
	var slots []*slot
	for _, want := range p.want.Ports {
		l := there[want.Listener.Key()]
		if l != nil && !p.ownsListener(*l) {
			p.noticePortInUse(want, *l)
			continue
		}
		s := &slot{want: want, listener: l}
		p.assignPool(s)
		slots = append(slots, s)
	}
	for _, s := range slots {
		if s.pool == nil {
			s.pool = p.leftover(s.want.Pool)
		}
	}
	return slots
}

func (c *changer) noticePortInUse(want octavia.Port, l octavia.Listener) {
	c.block(events.PortInUse,
		"port %s is used by listener %s of load balancer %s, which is not the Service's; change "+
			"the port, or delete the listener", want.Name, l.ID, c.is.LoadBalancer.ID)
}

// isRefusedAsGuest reports whether a new guest wants a port that another owner's listener has. Such
// a guest does not join: as with OCCM, none of its ports are created, and its tags, which count
// against max-shared-lb, are not added.
func (c *changer) isRefusedAsGuest() bool {
	tags := c.is.LoadBalancer.Tags
	if c.role != Guest || c.id.HasJoined(tags) {
		return false
	}
	collides := false
	for _, want := range c.want.Ports {
		for _, l := range c.is.Listeners {
			if l.Status != octavia.Deleted && l.Key() == want.Listener.Key() &&
				!c.ownsListener(l) {
				c.noticePortInUse(want, l)
				collides = true
			}
		}
	}
	return collides
}

// assignPool finds the pool of the port's listener. It skips a pool that another listener or port
// uses.
func (p *ports) assignPool(s *slot) {
	if s.listener == nil {
		return
	}
	pool := p.is.Pool(s.listener.PoolID)
	if pool == nil || p.taken[pool.ID] || p.usedByOthers(pool.ID) {
		return
	}
	p.taken[pool.ID] = true
	if pool.Protocol == s.want.Pool.Protocol {
		s.pool = pool
	} else {
		s.old = pool
	}
}

func (p *ports) usedByOthers(pool string) bool {
	return slices.ContainsFunc(p.is.Listeners, func(l octavia.Listener) bool {
		return l.PoolID == pool && !p.ownsListener(l)
	})
}

// leftover returns a pool that an interrupted plan has created for the port; nil for none.
func (p *ports) leftover(want octavia.Pool) *octavia.Pool {
	for i := range p.is.Pools {
		pool := &p.is.Pools[i]
		if pool.Name == want.Name && pool.Protocol == want.Protocol && !p.taken[pool.ID] &&
			p.isLeftover(*pool) {
			p.taken[pool.ID] = true
			return pool
		}
	}
	return nil
}

func (p *planner) isLeftover(pool octavia.Pool) bool {
	return pool.Status != octavia.Deleted && p.ownsPool(pool) && !p.isUsed(pool.ID)
}

// update changes existing objects that stay. It keeps their names: they hold the port's index in
// the Service, which does not matter to traffic, and each rename would keep the load balancer busy.
func (p *ports) update(s *slot) {
	if s.isNew() {
		return
	}
	if s.pool != nil && !s.isAside() {
		// While a listener is recreated, no listener identifies the owner of its pool.
		p.updatePool(s.pool, s.want.Pool, s.isOther())
	}
	if !s.isOther() {
		p.updateListener(s, Ref{})
	}
}

// updateListener compares the listener. pool is its new default pool; the zero value keeps the
// current one.
func (p *ports) updateListener(s *slot, pool Ref) {
	is, want := *s.listener, s.want.Listener
	changes := p.listenerChanges(want, is)
	if pool != (Ref{}) {
		changes = []string{changed("default pool", is.PoolID, pool)}
	}
	if len(changes) == 0 {
		return
	}
	want.ID, want.Name, want.PoolID = is.ID, is.Name, ""
	if want.Tags != nil {
		want.Tags = merged(is.Tags, want.Tags)
	}
	p.add(UpdateListener{ID: is.ID, Listener: want, Pool: pool, Changes: changes})
}

// create creates new objects, and replaces those that an update cannot change. A pool is complete
// before it becomes the default pool of a listener in service. A listener that cannot be changed
// must be deleted before its replacement is created, because two listeners cannot have the same
// port.
func (p *ports) create(s *slot) {
	switch {
	case s.isNew() && s.pool == nil:
		p.createListener(s, Ref{})
		p.createPool(s.want.Pool, Ref{}, Ref{Made: s.want.Listener.Name})
	case s.isNew():
		p.createListener(s, p.poolAside(s))
	case s.isOther():
		pool := p.poolAside(s)
		p.mark(s.old)
		p.add(DeleteListener{
			s.listener.ID, s.listener.Name,
			changed("protocol", s.listener.Protocol, s.want.Listener.Protocol),
		})
		p.createListener(s, pool)
		p.drop(s)
	case s.pool == nil && s.listener.PoolID == "":
		p.createPool(s.want.Pool, Ref{}, Ref{ID: s.listener.ID})
	case s.pool == nil || s.isAside():
		pool := p.poolAside(s)
		p.mark(s.old)
		p.updateListener(s, pool)
		p.drop(s)
	}
}

// poolAside returns the port's pool, created or updated.
func (p *ports) poolAside(s *slot) Ref {
	if s.pool == nil {
		p.createPool(s.want.Pool, p.loadBalancer, Ref{})
		return Ref{Made: s.want.Pool.Name}
	}
	if s.isAside() {
		p.updatePool(s.pool, s.want.Pool, false)
	}
	return Ref{ID: s.pool.ID}
}

// mark tags a pool that is about to lose its listener as the Service's.
func (p *ports) mark(pool *octavia.Pool) {
	if pool == nil || p.ownsPool(*pool) || !p.want.Features.Tags {
		return
	}
	marked := *pool
	marked.Tags = merged(pool.Tags, p.id.Tags())
	p.add(UpdatePool{ID: pool.ID, Pool: marked, Changes: added(pool.Tags, p.id.Tags())})
}

// drop deletes a replaced pool.
func (p *ports) drop(s *slot) {
	if s.old != nil {
		p.add(DeletePool{
			s.old.ID, s.old.Name,
			changed("protocol", s.old.Protocol, s.want.Pool.Protocol),
		})
	}
}

func (p *ports) createListener(s *slot, pool Ref) {
	p.add(CreateListener{LoadBalancer: p.loadBalancer, Listener: s.want.Listener, Pool: pool})
}

// createPool creates a pool with its parts, in a load balancer or as the default pool of a
// listener.
func (p *ports) createPool(want octavia.Pool, loadBalancer, listener Ref) {
	if p.want.Features.Tags {
		want.Tags = p.id.Tags()
	}
	want.Members = requested(want.Members, nil, p.vipSubnet(), p.want.Features)
	p.add(CreatePool{LoadBalancer: loadBalancer, Listener: listener, Pool: want})
	made := Ref{Made: want.Name}
	p.setMembers(made, want.Name, memberDifference{want: want.Members, create: want.Members})
	if want.Monitor != nil {
		p.add(CreateMonitor{Pool: made, PoolName: want.Name, Monitor: *want.Monitor})
	}
}

func (p *ports) vipSubnet() string {
	if p.is.LoadBalancer == nil {
		return p.want.LoadBalancer.VIP.SubnetID
	}
	return p.is.LoadBalancer.VIP.SubnetID
}

// remove deletes unwanted objects, even those for earlier ports of the Service, which their tags
// identify.
func (p *ports) remove(slots []*slot) {
	kept := map[string]bool{}
	for _, s := range slots {
		if s.listener != nil {
			kept[s.listener.ID] = true
		}
	}
	p.removeListeners(func(l octavia.Listener) bool {
		return !kept[l.ID]
	}, p.taken, "port not wanted any more")
}

// removeListeners deletes the unwanted listeners of the Service, their pools unless in use, and the
// pools that interrupted plans have left.
//
// The pool is deleted first, because its listener identifies its owner. Octavia allows both orders.
// Clients that connect in between are refused a little later.
func (p *planner) removeListeners(
	unwanted func(octavia.Listener) bool, use map[string]bool, why string,
) {
	use = p.stillUsed(unwanted, use)
	for _, l := range p.is.Listeners {
		if l.Status == octavia.Deleted || !p.ownsListener(l) || !unwanted(l) {
			continue
		}
		if pool := p.is.Pool(l.PoolID); pool != nil && !use[pool.ID] {
			use[pool.ID] = true
			p.add(DeletePool{pool.ID, pool.Name, why})
		}
		p.add(DeleteListener{l.ID, l.Name, why})
	}
	for _, pool := range p.is.Pools {
		if !use[pool.ID] && p.isLeftover(pool) {
			p.add(DeletePool{pool.ID, pool.Name, "no listener uses it"})
		}
	}
}

// stillUsed adds the pools of the listeners that stay, whoever owns them, to the pools in use.
func (p *planner) stillUsed(
	unwanted func(octavia.Listener) bool, use map[string]bool,
) map[string]bool {
	used := map[string]bool{}
	maps.Copy(used, use)
	for _, l := range p.is.Listeners {
		if l.PoolID != "" && (!p.ownsListener(l) || !unwanted(l)) {
			used[l.PoolID] = true
		}
	}
	return used
}

// listenerChanges returns the differences that an update of the listener resolves.
func (c *changer) listenerChanges(want, is octavia.Listener) []string {
	var changes differences
	changes.repair(is.Status)
	if c.want.Features.Tags {
		changes = append(changes, added(is.Tags, want.Tags)...)
	}
	if c.admitsSame(want.AllowedCIDRs, is.AllowedCIDRs) {
		is.AllowedCIDRs = want.AllowedCIDRs
	}
	changes.add(octavia.FieldsOf[octavia.Listener]().Changes(is, want))
	return changes
}

// admitsSame treats CIDRs that admit all clients as equal to an empty list.
func (c *changer) admitsSame(a, b []string) bool {
	if c.admitsAll(a) {
		return c.admitsAll(b)
	}
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// admitsAll reports whether every client that can reach an address of the load balancer is
// admitted. An empty list admits all.
func (c *changer) admitsAll(cidrs []string) bool {
	if len(cidrs) == 0 {
		return true
	}
	lb := c.is.LoadBalancer
	if lb == nil {
		return false
	}
	for _, vip := range append([]octavia.VIP{lb.VIP}, lb.AdditionalVIPs...) {
		address, err := netip.ParseAddr(vip.Address)
		whole := "0.0.0.0/0"
		if address.Is6() {
			whole = "::/0"
		}
		if err != nil || !slices.Contains(cidrs, whole) {
			return false
		}
	}
	return true
}

// updatePool compares a pool and its parts. mark: the pool is about to lose its listener, so it
// also gets the Service's tags.
//
// Members come first, because traffic depends on them. If the pool is in ERROR, the pool itself
// must come first.
func (p *ports) updatePool(is *octavia.Pool, want octavia.Pool, mark bool) {
	want.ID, want.Name, want.Tags = is.ID, is.Name, nil
	changes := poolChanges(want, *is)
	if mark && p.want.Features.Tags && !p.ownsPool(*is) {
		want.Tags = merged(is.Tags, p.id.Tags())
		changes = append(changes, added(is.Tags, p.id.Tags())...)
	}
	update := func() {
		if len(changes) > 0 {
			p.add(UpdatePool{ID: is.ID, Pool: want, Changes: changes})
		}
	}
	if is.Status == octavia.InError {
		update()
	}
	p.setMembers(Ref{ID: is.ID}, is.Name, differenceOf(want, *is, p.vipSubnet(), p.want.Features))
	if is.Status != octavia.InError {
		update()
	}
	p.updateMonitor(is, want.Monitor)
}

func poolChanges(want, is octavia.Pool) []string {
	var changes differences
	changes.repair(is.Status)
	changes.add(octavia.FieldsOf[octavia.Pool]().Changes(is, want))
	return changes
}

// updateMonitor: the type is immutable, and a pool has at most one monitor.
func (p *ports) updateMonitor(pool *octavia.Pool, want *octavia.Monitor) {
	is := pool.Monitor
	ref := Ref{ID: pool.ID}
	switch {
	case is == nil && want == nil:
	case is == nil:
		p.add(CreateMonitor{Pool: ref, PoolName: pool.Name, Monitor: *want})
	case want == nil:
		p.add(DeleteMonitor{is.ID, is.Name, "not wanted any more"})
	case want.Type != is.Type:
		p.add(DeleteMonitor{is.ID, is.Name, changed("type", is.Type, want.Type)},
			CreateMonitor{Pool: ref, PoolName: pool.Name, Monitor: *want})
	default:
		if changes := monitorChanges(*want, *is, pool.MonitorInPart); len(changes) > 0 {
			monitor := *want
			monitor.ID, monitor.Name = is.ID, is.Name
			p.add(UpdateMonitor{ID: is.ID, Monitor: monitor, Changes: changes})
		}
	}
}

func monitorChanges(want, is octavia.Monitor, inPart bool) []string {
	var changes differences
	changes.repair(is.Status)
	if !inPart {
		changes.add(octavia.FieldsOf[octavia.Monitor]().Changes(is, want))
	}
	return changes
}

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

func differenceOf(
	want, is octavia.Pool, vipSubnet string, has desired.Features,
) memberDifference {
	var d memberDifference
	there := map[octavia.MemberKey]octavia.Member{}
	for _, m := range is.Members {
		if m.Status != octavia.Deleted {
			there[m.Key()] = m
		}
	}
	d.want = requested(want.Members, there, vipSubnet, has)
	wanted, fields := map[octavia.MemberKey]bool{}, octavia.FieldsOf[octavia.Member]()
	for i, m := range d.want {
		wanted[m.Key()] = true
		old, ok := there[m.Key()]
		if !ok {
			d.create = append(d.create, m)
			continue
		}
		c := compareMember(fields, want.Members[i], old, is.MembersInPart, vipSubnet)
		if len(c.changes) > 0 {
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
func compareMember(
	fields octavia.Fields[octavia.Member], want, is octavia.Member, inPart bool, vipSubnet string,
) memberChange {
	c := memberChange{is: is}
	c.changes.repair(is.Status)
	if inPart {
		c.changes.compare("name", is.Name, want.Name)
		return c
	}
	if want.SubnetID != "" && cmp.Or(want.SubnetID, vipSubnet) != cmp.Or(is.SubnetID, vipSubnet) {
		c.changes = append(c.changes, changed("subnet_id", is.SubnetID, want.SubnetID))
		c.wholesale = true
	}
	c.changes.add(fields.Changes(is, want))
	return c
}

// requested returns the members as requested: without the subnet of the VIP, because Octavia reads
// each named subnet from Neutron (see [octavia.Member]). The subnet of an existing member is named
// if it differs, and that of each member if the provider needs it.
func requested(
	members []octavia.Member, there map[octavia.MemberKey]octavia.Member, vipSubnet string,
	has desired.Features,
) []octavia.Member {
	if len(members) == 0 {
		return nil
	}
	asked := make([]octavia.Member, len(members))
	for i, m := range members {
		elsewhere := cmp.Or(there[m.Key()].SubnetID, vipSubnet) != vipSubnet
		if m.SubnetID == vipSubnet && !elsewhere && !has.NamesMemberSubnet {
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
		step := SetMembers{Pool: pool, PoolName: name, Members: d.want, Changes: changes}
		if len(d.want) == 0 {
			step.Removed = d.remove
		}
		p.add(step)
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
