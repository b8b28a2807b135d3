package octavia

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"

func idsOf[T any](rows []T, id func(T) string) []object {
	ids := []object{}
	for _, row := range rows {
		ids = append(ids, object{"id": id(row)})
	}
	return ids
}

func listenerID(l Listener) string { return l.ID }

// shown is an attribute that does not filter lists.
func shown(name string, get func(*target) any) resource.Field[target] {
	return resource.Field[target]{Name: name, Get: get, Unfiltered: true}
}

// parent is a filter of lists that the resources do not show.
func parent(name string, get func(*target) any) resource.Field[target] {
	return resource.Field[target]{Name: name, Get: get, Hidden: true}
}

func treeID(t *target) any { return t.tree.ID }

func poolID(t *target) any { return t.pool.ID }

func treeIDs(t *target) any { return []object{{"id": t.tree.ID}} }

func loadBalancerFields(types types) resource.Fields[target] {
	return resource.Within(types.loadBalancer,
		func(t *target) *LoadBalancer { return &t.tree.LoadBalancer },
		shown("listeners", func(t *target) any { return idsOf(t.tree.Listeners, listenerID) }),
		shown("pools", func(t *target) any {
			return idsOf(t.tree.Pools, func(p Pool) string { return p.ID })
		}))
}

func listenerFields(types types) resource.Fields[target] {
	return resource.Within(types.listener, func(t *target) *Listener { return t.listener },
		parent("loadbalancer_id", treeID), parent("load_balancer_id", treeID),
		shown("loadbalancers", treeIDs),
		shown("l7policies", func(*target) any { return []object{} }))
}

func poolFields(types types) resource.Fields[target] {
	return resource.Within(types.pool, func(t *target) *Pool { return t.pool },
		parent("loadbalancer_id", treeID), parent("load_balancer_id", treeID),
		shown("loadbalancers", treeIDs),
		shown("listeners", func(t *target) any {
			return idsOf(t.tree.listenersOf(t.pool), func(l *Listener) string { return l.ID })
		}),
		shown("members", func(t *target) any {
			return idsOf(t.pool.Members, func(m Member) string { return m.ID })
		}),
		resource.Shown("healthmonitor_id", func(t *target) any {
			if t.pool.Monitor == nil {
				return resource.Absent{}
			}
			return t.pool.Monitor.ID
		}))
}

func memberFields(types types) resource.Fields[target] {
	return resource.Within(types.member, func(t *target) *Member { return t.member },
		parent("pool_id", poolID))
}

func monitorFields(types types) resource.Fields[target] {
	return resource.Within(types.monitor, func(t *target) *HealthMonitor { return t.pool.Monitor },
		parent("pool_id", poolID),
		shown("pools", func(t *target) any { return []object{{"id": t.pool.ID}} }))
}

// showWhole is the answer to the creation of a whole load balancer. It shows resources instead of
// IDs, but monitors are always null (PoolFullResponse).
func (s *Service) showWhole(t *tree) object {
	of := target{tree: t}
	listeners, pools := []object{}, []object{}
	for _, l := range of.listeners() {
		listener := s.kinds.listener.fields.Show(l)
		delete(listener, "loadbalancers")
		listeners = append(listeners, listener)
	}
	for _, p := range of.pools() {
		members := []object{}
		for _, m := range p.members() {
			members = append(members, s.kinds.member.fields.Show(m))
		}
		pool := s.kinds.pool.fields.Show(p)
		delete(pool, "loadbalancers")
		delete(pool, "healthmonitor_id")
		pool["members"], pool["healthmonitor"] = members, nil
		pools = append(pools, pool)
	}
	whole := s.kinds.loadBalancer.fields.Show(&of)
	whole["listeners"], whole["pools"] = listeners, pools
	return whole
}

// statuses is the status tree. It omits pools without a listener, and some attributes
// (LoadBalancerStatusResponse and the types below it).
func (t *tree) statuses() object {
	listeners := []object{}
	for l := range each(t.Listeners) {
		pools := []object{}
		if p := t.pool(l.DefaultPoolID); p != nil {
			pools = append(pools, p.statuses())
		}
		shown := statusOf(&l.OctaviaResource)
		shown["pools"] = pools
		listeners = append(listeners, shown)
	}
	shown := statusOf(&t.OctaviaResource)
	shown["listeners"] = listeners
	return shown
}

func (p *Pool) statuses() object {
	members := []object{}
	for m := range each(p.Members) {
		member := statusOf(&m.OctaviaResource)
		member["address"], member["protocol_port"] = m.Address, m.ProtocolPort
		members = append(members, member)
	}
	shown := statusOf(&p.OctaviaResource)
	shown["members"] = members
	if p.Monitor != nil {
		monitor := statusOf(&p.Monitor.OctaviaResource)
		monitor["type"] = p.Monitor.Type
		// The key differs from the pool's own key healthmonitor (PoolStatusResponse).
		shown["health_monitor"] = monitor
	}
	return shown
}

func statusOf(row *OctaviaResource) object {
	return object{
		"id": row.ID, "name": row.Name, "provisioning_status": row.ProvisioningStatus,
		"operating_status": row.OperatingStatus,
	}
}
