package octavia

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"

// target is a resource with the resources above it; the others are nil.
type target struct {
	tree     *tree
	listener *Listener
	pool     *poolTree
	member   *Member
	row      *OctaviaResource
}

// parents are the IDs that filter lists.
func (t target) parents() map[string]string {
	ids := map[string]string{"loadbalancer_id": t.tree.ID, "load_balancer_id": t.tree.ID}
	if t.pool != nil {
		ids["pool_id"], ids["healthmonitor_id"] = t.pool.ID, ""
		if t.pool.monitor != nil {
			ids["healthmonitor_id"] = t.pool.monitor.ID
		}
	}
	return ids
}

// mutable refuses a change below the load balancer; see [tree.mutable] and [tree.mutablePool].
func (t target) mutable() error {
	if t.pool == nil || t.row == &t.pool.OctaviaResource {
		return t.tree.mutable()
	}
	return t.tree.mutablePool(t.pool)
}

// kind is a kind of Octavia's resources.
type kind struct {
	// name is the name in bodies, called the name in errors.
	operation, path, name, called string
	// filters are the attributes that filter a list.
	filters []string
	// of returns the resources of a load balancer or, for members, of a pool.
	of                     func(target) []target
	show                   func(target) object
	create, update, remove handling
}

func (s *Service) kinds() []kind {
	return []kind{s.loadBalancers(), s.listeners(), s.pools(), s.members(), s.monitors()}
}

func (s *Service) loadBalancers() kind {
	return kind{
		"loadbalancer", "loadbalancers", "loadbalancer", "Load Balancer",
		filterable(s.types.loadBalancer),
		func(t target) []target { return []target{{tree: t.tree, row: &t.tree.OctaviaResource}} },
		func(t target) object { return s.showLoadBalancer(t.tree) },
		createLoadBalancer, updateLoadBalancer, deleteLoadBalancer,
	}
}

func (s *Service) listeners() kind {
	of := func(t target) (all []target) {
		for _, l := range t.tree.listeners {
			all = append(all, target{tree: t.tree, listener: l, row: &l.OctaviaResource})
		}
		return all
	}
	return kind{
		"loadbalancer_listener", "listeners", "listener", "Listener",
		filterable(s.types.listener, "loadbalancer_id", "load_balancer_id"), of,
		func(t target) object { return s.showListener(t.tree, t.listener) },
		createListener, updateListener, remove,
	}
}

func (s *Service) pools() kind {
	of := func(t target) (all []target) {
		for _, p := range t.tree.pools {
			all = append(all, target{tree: t.tree, pool: p, row: &p.OctaviaResource})
		}
		return all
	}
	return kind{
		"loadbalancer_pool", "pools", "pool", "Pool",
		filterable(s.types.pool, "loadbalancer_id", "load_balancer_id", "healthmonitor_id"), of,
		func(t target) object { return s.showPool(t.tree, t.pool) },
		createPool, updatePool, remove,
	}
}

func (s *Service) members() kind {
	of := func(t target) (all []target) {
		for _, m := range t.pool.members {
			all = append(all,
				target{tree: t.tree, pool: t.pool, member: m, row: &m.OctaviaResource})
		}
		return all
	}
	return kind{
		"loadbalancer_member", "pools/{pool}/members", "member", "Member",
		filterable(s.types.member, "pool_id"), of,
		func(t target) object { return s.types.member.Show(t.member) },
		createMember, updateMember, deleteMember,
	}
}

func (s *Service) monitors() kind {
	of := func(t target) (all []target) {
		for _, p := range t.tree.pools {
			if m := p.monitor; m != nil {
				all = append(all, target{tree: t.tree, pool: p, row: &m.OctaviaResource})
			}
		}
		return all
	}
	return kind{
		"loadbalancer_healthmonitor", "healthmonitors", "healthmonitor", "Health Monitor",
		filterable(s.types.monitor, "pool_id"), of,
		func(t target) object { return s.showMonitor(t.pool) },
		createMonitor, updateMonitor, remove,
	}
}

// inPool finds the pool in a path of members, if the path names one.
func inPool(handle handling) handling {
	return found(func(r *request) (err error) {
		if id := r.PathValue("pool"); id != "" {
			r.target, err = r.find(r.octavia.pools(), id)
		}
		return err
	}, handle)
}

// on finds the resource of the request before it is handled.
func (k kind) on(handle handling) handling {
	return inPool(found(func(r *request) (err error) {
		r.target, err = r.find(k, r.PathValue("id"))
		return err
	}, handle))
}

// all are the resources of a kind: those of the request's pool, or of all load balancers.
func (r *request) all(k kind) (all []target) {
	if r.pool != nil {
		return k.of(r.target)
	}
	for _, t := range r.octavia.trees {
		all = append(all, k.of(target{tree: t})...)
	}
	return all
}

// find finds a resource that the caller may use.
func (r *request) find(k kind, id string) (target, error) {
	for _, t := range r.all(k) {
		if t.row.ID == id {
			return t, admitCaller(r, t.tree.ProjectID)
		}
	}
	return target{}, notFound(k.called, id)
}

// list shows the resources of the caller's project; all of them to an administrator.
func (k kind) list(r *request) (answer, error) {
	items := []listItem{}
	for _, t := range r.all(k) {
		if admitCaller(r, t.tree.ProjectID) == nil {
			items = append(items, listItem{k.show(t), t.parents()})
		}
	}
	return list(r, k.name+"s", k.filters, items)
}

// get shows a resource, or the attributes of it that the query selects.
func (k kind) get(r *request) (answer, error) {
	return api.OK(object{k.name: selectFields(k.show(r.target), r.Query["fields"])}), nil
}

// remove deletes a listener, whose pool stays, because other listeners may share it; a pool with
// members and monitor, whose listeners stay without a default pool; or a monitor.
func remove(r *request) (answer, error) {
	if err := r.mutable(); err != nil {
		return answer{}, err
	}
	r.octavia.work(r.tree, r.pool, r.row, StatusPendingDelete)
	return api.NoContent(), nil
}
