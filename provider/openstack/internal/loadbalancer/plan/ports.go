package plan

import (
	"maps"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
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
		"port %s is used by listener %s of load balancer %s, which is not the Service's", want.Name,
		l.ID, c.is.LoadBalancer.ID)
}

// isTurnedAway reports whether a new guest wants a port that another owner's listener has. Then it
// does not join at all: as with OCCM, none of its ports are created, and its tags, which count
// against max-shared-lb, are not added.
func (c *changer) isTurnedAway() bool {
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
	want.Members = requested(want.Members, nil, p.vipSubnet())
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
