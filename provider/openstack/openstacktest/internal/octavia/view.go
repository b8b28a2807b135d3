package octavia

// full tells what the answer to a creation of a whole load balancer shows instead of ids.
type renderer struct {
	minor int
	full  bool
}

func viewOf(r *request) renderer { return renderer{minor: r.octavia.options.minor()} }

func idsOf[T any](rows []T, id func(T) string) []object {
	ids := []object{}
	for _, row := range rows {
		ids = append(ids, object{"id": id(row)})
	}
	return ids
}

func (v renderer) loadBalancer(t *tree) object {
	shown := loadBalancerFields().show(&t.LoadBalancer, v.minor)
	if !v.full {
		shown["listeners"] = idsOf(t.listeners, func(l *Listener) string { return l.ID })
		shown["pools"] = idsOf(t.pools, func(p *poolTree) string { return p.ID })
		return shown
	}
	listeners, pools := []object{}, []object{}
	for _, l := range t.listeners {
		listeners = append(listeners, v.listener(t, l))
	}
	for _, p := range t.pools {
		pools = append(pools, v.pool(t, p))
	}
	shown["listeners"], shown["pools"] = listeners, pools
	return shown
}

func (v renderer) listener(t *tree, l *Listener) object {
	shown := listenerFields().show(l, v.minor)
	shown["l7policies"] = []object{}
	if !v.full {
		shown["loadbalancers"] = []object{{"id": t.ID}}
	}
	return shown
}

func (v renderer) pool(t *tree, p *poolTree) object {
	shown := poolFields().show(&p.Pool, v.minor)
	shown["listeners"] = idsOf(t.listenersOf(p), func(l *Listener) string { return l.ID })
	if !v.full {
		// Without a monitor the key is missing.
		if p.monitor != nil {
			shown["healthmonitor_id"] = p.monitor.ID
		}
		shown["loadbalancers"] = []object{{"id": t.ID}}
		shown["members"] = idsOf(p.members, func(m *Member) string { return m.ID })
		return shown
	}
	members := []object{}
	for _, m := range p.members {
		members = append(members, v.member(m))
	}
	shown["members"] = members
	// The monitor is not shown, though it is made: its place is always null (PoolFullResponse).
	shown["healthmonitor"] = nil
	return shown
}

func (v renderer) member(m *Member) object { return memberFields().show(m, v.minor) }

func (v renderer) monitor(p *poolTree) object {
	shown := monitorFields().show(p.monitor, v.minor)
	if !v.full {
		shown["pools"] = []object{{"id": p.ID}}
	}
	return shown
}

// statuses is the status tree. It holds less than the resources: no port or subnet for monitoring,
// no weight, and no pool that no listener has (LoadBalancerStatusResponse and those below it).
func (t *tree) statuses() object {
	listeners := []object{}
	for _, l := range t.listeners {
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

func (p *poolTree) statuses() object {
	members := []object{}
	for _, m := range p.members {
		member := statusOf(&m.OctaviaResource)
		member["address"], member["protocol_port"] = m.Address, m.ProtocolPort
		members = append(members, member)
	}
	shown := statusOf(&p.OctaviaResource)
	shown["members"] = members
	if p.monitor != nil {
		monitor := statusOf(&p.monitor.OctaviaResource)
		monitor["type"] = p.monitor.Type
		// The key is not that of the pool itself, healthmonitor (PoolStatusResponse).
		shown["health_monitor"] = monitor
	}
	return shown
}

func statusOf(resource *OctaviaResource) object {
	return object{
		"id": resource.ID, "name": resource.Name,
		"provisioning_status": resource.ProvisioningStatus,
		"operating_status":    resource.OperatingStatus,
	}
}
