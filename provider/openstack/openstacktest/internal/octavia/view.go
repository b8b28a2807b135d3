package octavia

func idsOf[T any](rows []T, id func(T) string) []object {
	ids := []object{}
	for _, row := range rows {
		ids = append(ids, object{"id": id(row)})
	}
	return ids
}

func (s *Service) showLoadBalancer(t *tree) object {
	shown := s.types.loadBalancer.Show(&t.LoadBalancer)
	shown["listeners"] = idsOf(t.Listeners, func(l Listener) string { return l.ID })
	shown["pools"] = idsOf(t.Pools, func(p Pool) string { return p.ID })
	return shown
}

// showWhole is the answer to the creation of a whole load balancer. It shows resources instead of
// IDs, but monitors are always null (PoolFullResponse).
func (s *Service) showWhole(t *tree) object {
	shown := s.types.loadBalancer.Show(&t.LoadBalancer)
	listeners, pools := []object{}, []object{}
	for l := range each(t.Listeners) {
		listener := s.showListener(t, l)
		delete(listener, "loadbalancers")
		listeners = append(listeners, listener)
	}
	for p := range each(t.Pools) {
		members := []object{}
		for m := range each(p.Members) {
			members = append(members, s.types.member.Show(m))
		}
		pool := s.showPool(t, p)
		delete(pool, "loadbalancers")
		delete(pool, "healthmonitor_id")
		pool["members"], pool["healthmonitor"] = members, nil
		pools = append(pools, pool)
	}
	shown["listeners"], shown["pools"] = listeners, pools
	return shown
}

func (s *Service) showListener(t *tree, l *Listener) object {
	shown := s.types.listener.Show(l)
	shown["l7policies"], shown["loadbalancers"] = []object{}, []object{{"id": t.ID}}
	return shown
}

func (s *Service) showPool(t *tree, p *Pool) object {
	shown := s.types.pool.Show(p)
	shown["listeners"] = idsOf(t.listenersOf(p), func(l *Listener) string { return l.ID })
	shown["members"] = idsOf(p.Members, func(m Member) string { return m.ID })
	shown["loadbalancers"] = []object{{"id": t.ID}}
	// Without a monitor the key is missing.
	if p.Monitor != nil {
		shown["healthmonitor_id"] = p.Monitor.ID
	}
	return shown
}

func (s *Service) showMonitor(p *Pool) object {
	shown := s.types.monitor.Show(p.Monitor)
	shown["pools"] = []object{{"id": p.ID}}
	return shown
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
