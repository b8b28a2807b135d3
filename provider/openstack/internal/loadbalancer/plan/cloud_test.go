package plan_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

const (
	vipSubnet = "subnet-vip"
	vipPort   = "port-vip"
)

// cloud is a model of the objects in Octavia and Neutron for one Service, and of the refusals of
// both.
type cloud struct {
	lb        *octavia.LoadBalancer
	role      plan.Role
	listeners []octavia.Listener
	pools     []octavia.Pool
	ips       []neutron.FloatingIP
	group     *neutron.SecurityGroup
	nodePorts []neutron.NodePort

	// asked is the requested address of a floating IP, named its ID, and poolTag that of its pool.
	// last is the address of the Service's status.
	asked, named, poolTag, last string
	count                       int
	made                        map[plan.Ref]string
}

func (c *cloud) newID(kind string) string {
	c.count++
	return fmt.Sprintf("%s-%d", kind, c.count)
}

// clone returns a deep copy.
func (c *cloud) clone() *cloud {
	copied := *c
	if c.lb != nil {
		lb := *c.lb
		lb.Tags = slices.Clone(lb.Tags)
		copied.lb = &lb
	}
	copied.listeners = slices.Clone(c.listeners)
	copied.pools = clonePools(c.pools)
	copied.ips = slices.Clone(c.ips)
	if c.group != nil {
		group := *c.group
		group.Rules = slices.Clone(group.Rules)
		copied.group = &group
	}
	copied.nodePorts = slices.Clone(c.nodePorts)
	for i := range copied.nodePorts {
		copied.nodePorts[i].SecurityGroups = slices.Clone(copied.nodePorts[i].SecurityGroups)
	}
	return &copied
}

func clonePools(pools []octavia.Pool) []octavia.Pool {
	copied := slices.Clone(pools)
	for i := range copied {
		copied[i].Members = slices.Clone(copied[i].Members)
		if m := copied[i].Monitor; m != nil {
			monitor := *m
			copied[i].Monitor = &monitor
		}
	}
	return copied
}

// observe returns the objects that shop observes. inPart: as in the status tree.
func (c *cloud) observe(inPart bool) plan.Observed {
	seen := c.clone()
	is := plan.Observed{
		LoadBalancer: seen.lb, Role: c.role, Listeners: seen.listeners, Pools: seen.pools,
		FloatingIPs: seen.ips, SecurityGroup: seen.group, NodePorts: seen.nodePorts,
	}
	// Floating IPs are selected by port, tags, address and ID, and by the address of the status.
	is.FloatingIPs = slices.DeleteFunc(is.FloatingIPs, func(f neutron.FloatingIP) bool {
		attached := seen.lb != nil && f.PortID != "" && f.PortID == seen.lb.VIP.PortID
		return !attached && !slices.Contains(f.Tags, shop().ServiceTag()) &&
			f.Address != c.asked && f.ID != c.named && !slices.Contains(f.Tags, c.poolTag) &&
			(f.PortID != "" || f.Address != c.last)
	})
	if !inPart {
		return is
	}
	for i := range is.Pools {
		p := &is.Pools[i]
		p.MembersInPart, p.MonitorInPart = true, p.Monitor != nil
		for j, m := range p.Members {
			p.Members[j] = octavia.Member{
				ID: m.ID, Name: m.Name, Address: m.Address, Port: m.Port,
				Status: m.Status,
			}
		}
		if m := p.Monitor; m != nil {
			*m = octavia.Monitor{ID: m.ID, Name: m.Name, Type: m.Type, Status: m.Status}
		}
	}
	return is
}

// run takes the first steps of a plan, and returns the first refusal.
func (c *cloud) run(p plan.Plan, steps int) error {
	c.made = map[plan.Ref]string{}
	for _, step := range p.Steps[:min(steps, len(p.Steps))] {
		if err := c.take(step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

func (c *cloud) find(kind string, ref plan.Ref) (string, error) {
	if ref.ID != "" || ref == (plan.Ref{}) {
		return ref.ID, nil
	}
	id := c.made[plan.Ref{Made: kind + ref.Made}]
	if id == "" {
		return "", fmt.Errorf("no step has made %s %s", kind, ref.Made)
	}
	return id, nil
}

func (c *cloud) learn(kind, name, id string) { c.made[plan.Ref{Made: kind + name}] = id }

var (
	errMissing  = errors.New("404")
	errConflict = errors.New("409")
	errInvalid  = errors.New("400")
)

func (c *cloud) take(step plan.Step) error {
	switch s := step.(type) {
	case plan.CreateLoadBalancer:
		return c.createLoadBalancer(s)
	case plan.DeleteLoadBalancer:
		return c.deleteLoadBalancer(s)
	case plan.FailoverLoadBalancer:
		if c.lb == nil || c.lb.ID != s.ID {
			return errMissing
		}
		c.lb.Status = octavia.Active
		return nil
	case plan.CreateFloatingIP, plan.AttachFloatingIP, plan.DetachFloatingIP, plan.DeleteFloatingIP,
		plan.TagFloatingIP, plan.TakeFloatingIP:
		return c.takeFloatingIP(step)
	case plan.CreateSecurityGroup, plan.TagSecurityGroup, plan.DeleteSecurityGroup, plan.CreateRule,
		plan.DeleteRule, plan.AddGroup, plan.RemoveGroup:
		return c.takeGroup(step)
	}
	if c.lb == nil {
		return errMissing
	}
	if c.lb.Status != octavia.Active {
		return fmt.Errorf("%w: load balancer is %s", errConflict, c.lb.Status)
	}
	switch s := step.(type) {
	case plan.UpdateLoadBalancer:
		if s.ID != c.lb.ID {
			return errMissing
		}
		c.lb.Tags = slices.Clone(s.Tags)
		return nil
	case plan.SeeDeleted:
		for _, id := range s.IDs {
			if c.listener(id) != nil || c.pool(id) != nil {
				return fmt.Errorf("%w: %s exists", errConflict, id)
			}
		}
		return nil
	case plan.CreateListener, plan.UpdateListener, plan.DeleteListener:
		return c.takeListener(step)
	case plan.CreatePool, plan.UpdatePool, plan.DeletePool:
		return c.takePool(step)
	}
	return c.takeBelowPool(step)
}

func (c *cloud) createLoadBalancer(s plan.CreateLoadBalancer) error {
	if c.lb != nil {
		return fmt.Errorf("%w: a second load balancer", errConflict)
	}
	lb := s.LoadBalancer
	lb.ID, lb.Status = c.newID("lb"), octavia.Active
	lb.VIP.PortID = or(lb.VIP.PortID, vipPort+"-"+lb.ID)
	lb.VIP.Address = or(lb.VIP.Address, "10.0.0.5")
	lb.VIP.SubnetID = or(lb.VIP.SubnetID, vipSubnet)
	lb.VIP.NetworkID = or(lb.VIP.NetworkID, "network-vip")
	lb.Provider = or(lb.Provider, "amphora")
	c.lb = &lb
	if s.Bare {
		return nil
	}
	for _, port := range s.Ports {
		pool := port.Pool
		pool.ID = c.newID("pool")
		pool.Members = nil
		for _, m := range port.Pool.Members {
			m.ID = c.newID("member")
			pool.Members = append(pool.Members, m)
		}
		if port.Pool.Monitor != nil {
			monitor := *port.Pool.Monitor
			monitor.ID = c.newID("monitor")
			pool.Monitor = &monitor
		}
		pool.Status = octavia.Active
		l := port.Listener
		l.ID, l.PoolID, l.Status = c.newID("listener"), pool.ID, octavia.Active
		if err := c.admitListener(l, pool.Protocol); err != nil {
			return err
		}
		c.pools = append(c.pools, pool)
		c.listeners = append(c.listeners, l)
	}
	return nil
}

func or(value, instead string) string {
	if value == "" {
		return instead
	}
	return value
}

func (c *cloud) deleteLoadBalancer(s plan.DeleteLoadBalancer) error {
	if c.lb == nil || c.lb.ID != s.ID {
		return errMissing
	}
	if !s.Cascade && len(c.listeners)+len(c.pools) > 0 {
		return fmt.Errorf("%w: it has children", errInvalid)
	}
	for i := range c.ips {
		if c.ips[i].PortID == c.lb.VIP.PortID {
			c.ips[i].PortID = ""
		}
	}
	c.lb, c.listeners, c.pools = nil, nil, nil
	return nil
}

// fits is VALID_LISTENER_POOL_PROTOCOL_MAP of octavia/common/constants.py.
func fits(listener, pool string) bool {
	switch listener {
	case octavia.TCP:
		return slices.Contains([]string{
			octavia.HTTP, octavia.HTTPS, octavia.Proxy,
			octavia.ProxyV2, octavia.TCP,
		}, pool)
	case octavia.HTTP, octavia.TerminatedHTTPS:
		return slices.Contains([]string{octavia.HTTP, octavia.Proxy, octavia.ProxyV2}, pool)
	}
	return listener == pool
}

func (c *cloud) admitListener(l octavia.Listener, pool string) error {
	for _, other := range c.listeners {
		if other.Key() == l.Key() {
			return fmt.Errorf("%w: port %d is used by %s", errConflict, l.Port, other.ID)
		}
	}
	if pool != "" && !fits(l.Protocol, pool) {
		return fmt.Errorf("%w: a %s pool does not fit a %s listener", errInvalid, pool, l.Protocol)
	}
	return nil
}

func (c *cloud) listener(id string) *octavia.Listener {
	for i := range c.listeners {
		if c.listeners[i].ID == id {
			return &c.listeners[i]
		}
	}
	return nil
}

func (c *cloud) pool(id string) *octavia.Pool {
	for i := range c.pools {
		if c.pools[i].ID == id {
			return &c.pools[i]
		}
	}
	return nil
}

// poolFor returns the desired default pool of a listener.
func (c *cloud) poolFor(ref plan.Ref) (id, protocol string, err error) {
	id, err = c.find("pool", ref)
	if err != nil || id == "" {
		return "", "", err
	}
	pool := c.pool(id)
	if pool == nil {
		return "", "", fmt.Errorf("%w: pool %s", errMissing, id)
	}
	return id, pool.Protocol, nil
}

func (c *cloud) takeListener(step plan.Step) error {
	switch s := step.(type) {
	case plan.CreateListener:
		id, protocol, err := c.poolFor(s.Pool)
		if err != nil {
			return err
		}
		l := s.Listener
		if err := c.admitListener(l, protocol); err != nil {
			return err
		}
		l.ID, l.PoolID, l.Status = c.newID("listener"), id, octavia.Active
		c.learn("listener", l.Name, l.ID)
		c.listeners = append(c.listeners, l)
	case plan.UpdateListener:
		l := c.listener(s.ID)
		if l == nil {
			return errMissing
		}
		if s.Listener.Protocol != l.Protocol || s.Listener.Port != l.Port {
			return fmt.Errorf("%w: protocol and port are immutable", errInvalid)
		}
		changed := s.Listener
		changed.ID, changed.PoolID, changed.Status = l.ID, l.PoolID, octavia.Active
		if s.Pool != (plan.Ref{}) {
			id, protocol, err := c.poolFor(s.Pool)
			if err != nil {
				return err
			}
			if !fits(l.Protocol, protocol) {
				return fmt.Errorf("%w: a %s pool does not fit a %s listener", errInvalid, protocol,
					l.Protocol)
			}
			changed.PoolID = id
		}
		if changed.Tags == nil {
			changed.Tags = l.Tags
		}
		*l = changed
	case plan.DeleteListener:
		if c.listener(s.ID) == nil {
			return errMissing
		}
		c.listeners = slices.DeleteFunc(c.listeners,
			func(l octavia.Listener) bool { return l.ID == s.ID })
	}
	return nil
}

func (c *cloud) takePool(step plan.Step) error {
	switch s := step.(type) {
	case plan.CreatePool:
		listener, err := c.find("listener", s.Listener)
		if err != nil {
			return err
		}
		pool := s.Pool
		pool.ID, pool.Members, pool.Monitor, pool.Status = c.newID("pool"), nil, nil,
			octavia.Active
		if listener != "" {
			l := c.listener(listener)
			switch {
			case l == nil:
				return errMissing
			case l.PoolID != "":
				return fmt.Errorf("%w: the listener has a default pool", errConflict)
			case !fits(l.Protocol, pool.Protocol):
				return fmt.Errorf("%w: a %s pool does not fit a %s listener", errInvalid,
					pool.Protocol, l.Protocol)
			}
			l.PoolID = pool.ID
		}
		c.learn("pool", pool.Name, pool.ID)
		c.pools = append(c.pools, pool)
	case plan.UpdatePool:
		pool := c.pool(s.ID)
		if pool == nil {
			return errMissing
		}
		if s.Pool.Protocol != pool.Protocol {
			return fmt.Errorf("%w: the protocol is immutable", errInvalid)
		}
		pool.Algorithm, pool.Persistence, pool.Status = s.Pool.Algorithm, s.Pool.Persistence,
			octavia.Active
		if s.Pool.Tags != nil {
			pool.Tags = slices.Clone(s.Pool.Tags)
		}
	case plan.DeletePool:
		if c.pool(s.ID) == nil {
			return errMissing
		}
		c.pools = slices.DeleteFunc(c.pools, func(p octavia.Pool) bool { return p.ID == s.ID })
		for i := range c.listeners {
			if c.listeners[i].PoolID == s.ID {
				c.listeners[i].PoolID = ""
			}
		}
	}
	return nil
}

// changeable returns a pool whose members and monitor can be changed.
func (c *cloud) changeable(ref plan.Ref) (*octavia.Pool, error) {
	id, err := c.find("pool", ref)
	if err != nil {
		return nil, err
	}
	pool := c.pool(id)
	if pool == nil {
		return nil, fmt.Errorf("%w: pool %s", errMissing, id)
	}
	if pool.Status != octavia.Active {
		return nil, fmt.Errorf("%w: pool %s is %s", errConflict, id, pool.Status)
	}
	return pool, nil
}

func (c *cloud) poolOfMonitor(id string) plan.Ref {
	for _, pool := range c.pools {
		if pool.Monitor != nil && pool.Monitor.ID == id {
			return plan.Ref{ID: pool.ID}
		}
	}
	return plan.Ref{ID: "of no monitor " + id}
}

func (c *cloud) takeBelowPool(step plan.Step) error {
	var ref plan.Ref
	switch s := step.(type) {
	case plan.CreateMonitor:
		ref = s.Pool
	case plan.UpdateMonitor:
		ref = c.poolOfMonitor(s.ID)
	case plan.DeleteMonitor:
		ref = c.poolOfMonitor(s.ID)
	case plan.SetMembers:
		ref = s.Pool
	case plan.CreateMember:
		ref = s.Pool
	case plan.UpdateMember:
		ref = plan.Ref{ID: s.PoolID}
	case plan.DeleteMember:
		ref = plan.Ref{ID: s.PoolID}
	default:
		return fmt.Errorf("unknown step %T", step)
	}
	pool, err := c.changeable(ref)
	if err != nil {
		return err
	}
	return c.changePool(pool, step)
}

func (c *cloud) changePool(pool *octavia.Pool, step plan.Step) error {
	at := func(id string) int {
		return slices.IndexFunc(pool.Members, func(m octavia.Member) bool { return m.ID == id })
	}
	switch s := step.(type) {
	case plan.CreateMonitor:
		if pool.Monitor != nil {
			return fmt.Errorf("%w: it has a monitor", errConflict)
		}
		monitor := s.Monitor
		monitor.ID, monitor.Status = c.newID("monitor"), octavia.Active
		pool.Monitor = &monitor
	case plan.UpdateMonitor:
		if s.Monitor.Type != pool.Monitor.Type {
			return fmt.Errorf("%w: the type is immutable", errInvalid)
		}
		monitor := s.Monitor
		monitor.ID, monitor.Status = pool.Monitor.ID, octavia.Active
		pool.Monitor = &monitor
	case plan.DeleteMonitor:
		pool.Monitor = nil
	case plan.SetMembers:
		return c.setMembers(pool, s.Members)
	case plan.CreateMember:
		if slices.ContainsFunc(pool.Members,
			func(m octavia.Member) bool { return m.Key() == s.Member.Key() }) {
			return fmt.Errorf("%w: member %v exists", errConflict, s.Member.Key())
		}
		m := s.Member
		m.ID, m.Status = c.newID("member"), octavia.Active
		pool.Members = append(pool.Members, m)
	case plan.UpdateMember:
		i := at(s.ID)
		if i < 0 {
			return errMissing
		}
		m := s.Member
		if m.Key() != pool.Members[i].Key() {
			return fmt.Errorf("%w: address and port are immutable", errInvalid)
		}
		m.ID, m.SubnetID, m.Status = s.ID, pool.Members[i].SubnetID, octavia.Active
		pool.Members[i] = m
	case plan.DeleteMember:
		i := at(s.ID)
		if i < 0 {
			return errMissing
		}
		pool.Members = slices.Delete(pool.Members, i, i+1)
	}
	return nil
}

// setMembers: an existing member keeps its subnet if none is named.
func (c *cloud) setMembers(pool *octavia.Pool, members []octavia.Member) error {
	old := map[octavia.MemberKey]octavia.Member{}
	for _, m := range pool.Members {
		old[m.Key()] = m
	}
	var now []octavia.Member
	seen := map[octavia.MemberKey]bool{}
	for _, m := range members {
		if seen[m.Key()] {
			return fmt.Errorf("%w: member %v twice", errInvalid, m.Key())
		}
		seen[m.Key()] = true
		m.ID, m.Status = c.newID("member"), octavia.Active
		if is, ok := old[m.Key()]; ok {
			m.ID, m.SubnetID = is.ID, or(m.SubnetID, is.SubnetID)
		}
		now = append(now, m)
	}
	pool.Members = now
	return nil
}

func (c *cloud) ip(id string) *neutron.FloatingIP {
	for i := range c.ips {
		if c.ips[i].ID == id {
			return &c.ips[i]
		}
	}
	return nil
}

func (c *cloud) takeFloatingIP(step plan.Step) error {
	switch s := step.(type) {
	case plan.CreateFloatingIP:
		ip := neutron.FloatingIP{
			ID: c.newID("fip"), NetworkID: s.Wanted.NetworkID, Description: s.Wanted.Description,
			Tags: slices.Clone(s.Wanted.Tags),
		}
		ip.Address = or(s.Wanted.Address, fmt.Sprintf("203.0.113.%d", c.count))
		if slices.ContainsFunc(c.ips,
			func(f neutron.FloatingIP) bool { return f.Address == ip.Address }) {
			return fmt.Errorf("%w: %s is in use", errConflict, ip.Address)
		}
		c.learn("floating IP", "", ip.ID)
		c.ips = append(c.ips, ip)
		if s.LoadBalancer == (plan.Ref{}) {
			return nil
		}
		return c.attach(ip.ID)
	case plan.AttachFloatingIP:
		id := or(s.ID, c.made[plan.Ref{Made: "floating IP"}])
		if ip := c.ip(id); ip != nil && s.Release {
			ip.Description = ""
		}
		return c.attach(id)
	case plan.TakeFloatingIP:
		for _, from := range s.From {
			ip := c.ip(from.ID)
			if ip == nil || ip.PortID != "" || !s.MayUse(*ip) {
				continue
			}
			ip.Tags = append(slices.Clone(from.Tags), s.Tags...)
			return c.attach(ip.ID)
		}
		return errConflict
	case plan.DetachFloatingIP:
		ip := c.ip(s.ID)
		if ip == nil {
			return errMissing
		}
		ip.PortID = ""
		if s.Release {
			ip.Description = ""
		}
	case plan.DeleteFloatingIP:
		if c.ip(s.ID) == nil {
			return errMissing
		}
		c.ips = slices.DeleteFunc(c.ips, func(f neutron.FloatingIP) bool { return f.ID == s.ID })
	case plan.TagFloatingIP:
		ip := c.ip(s.ID)
		if ip == nil {
			return errMissing
		}
		if s.Tags != nil {
			ip.Tags = slices.Clone(s.Tags)
		}
		if s.Release {
			ip.Description = ""
		}
	}
	return nil
}

func (c *cloud) attach(id string) error {
	ip := c.ip(id)
	if ip == nil || c.lb == nil {
		return errMissing
	}
	for _, other := range c.ips {
		if other.PortID == c.lb.VIP.PortID && other.ID != id {
			return fmt.Errorf("%w: the port has floating IP %s", errConflict, other.Address)
		}
	}
	ip.PortID = c.lb.VIP.PortID
	return nil
}

func (c *cloud) takeGroup(step plan.Step) error {
	if s, ok := step.(plan.CreateSecurityGroup); ok {
		if c.group != nil {
			return errConflict
		}
		group := s.Group
		group.ID, group.Rules = c.newID("group"), nil
		c.group = &group
		return nil
	}
	if c.group == nil {
		return errMissing
	}
	switch s := step.(type) {
	case plan.TagSecurityGroup:
		c.group.Tags = slices.Clone(s.Tags)
	case plan.DeleteSecurityGroup:
		for _, port := range c.nodePorts {
			if slices.Contains(port.SecurityGroups, s.ID) {
				return fmt.Errorf("%w: port %s has the group", errConflict, port.ID)
			}
		}
		c.group = nil
	case plan.CreateRule:
		if slices.ContainsFunc(c.group.Rules, s.Rule.Same) {
			return errConflict
		}
		rule := s.Rule
		rule.ID = c.newID("rule")
		c.group.Rules = append(c.group.Rules, rule)
	case plan.DeleteRule:
		n := len(c.group.Rules)
		c.group.Rules = slices.DeleteFunc(c.group.Rules,
			func(r neutron.Rule) bool { return r.ID == s.ID })
		if len(c.group.Rules) == n {
			return errMissing
		}
	case plan.AddGroup:
		port := c.nodePort(s.Port.ID)
		if port == nil || !port.PortSecurity {
			return errInvalid
		}
		port.SecurityGroups = append(port.SecurityGroups, c.group.ID)
	case plan.RemoveGroup:
		port := c.nodePort(s.Port.ID)
		if port == nil {
			return errMissing
		}
		port.SecurityGroups = slices.DeleteFunc(port.SecurityGroups,
			func(id string) bool { return id == s.GroupID })
	}
	return nil
}

func (c *cloud) nodePort(id string) *neutron.NodePort {
	for i := range c.nodePorts {
		if c.nodePorts[i].ID == id {
			return &c.nodePorts[i]
		}
	}
	return nil
}
