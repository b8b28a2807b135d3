package octavia

import (
	"iter"
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// target is a resource with the resources above it; the others are nil. The pointers are valid
// until the next resource is added or removed.
type target struct {
	tree     *tree
	listener *Listener
	pool     *Pool
	member   *Member
	row      *OctaviaResource
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
	// argument is the path of the resource in the body of a request, as errors show it.
	argument wsme
	fields   resource.Fields[target]
	// of returns the resources of a load balancer or, for members, of a pool.
	of                     func(target) []*target
	create, update, remove handling
}

type kinds struct{ loadBalancer, listener, pool, member, monitor kind }

func kindsOf(t types) kinds {
	return kinds{
		kind{
			"loadbalancer", "loadbalancers", "loadbalancer", "Load Balancer",
			"load_balancer.loadbalancer", loadBalancerFields(t), target.loadBalancers,
			createLoadBalancer, updateLoadBalancer, deleteLoadBalancer,
		},
		kind{
			"loadbalancer_listener", "listeners", "listener", "Listener", "listener_.listener",
			listenerFields(t), target.listeners, createListener, updateListener, remove,
		},
		kind{
			"loadbalancer_pool", "pools", "pool", "Pool", "pool_.pool",
			poolFields(t), target.pools, createPool, updatePool, remove,
		},
		kind{
			"loadbalancer_member", "pools/{pool}/members", "member", "Member", "member_.member",
			memberFields(t), target.members, createMember, updateMember, deleteMember,
		},
		kind{
			"loadbalancer_healthmonitor", "healthmonitors", "healthmonitor", "Health Monitor",
			"health_monitor_.healthmonitor", monitorFields(t), target.monitors,
			createMonitor, updateMonitor, remove,
		},
	}
}

func (t target) loadBalancers() []*target {
	return []*target{{tree: t.tree, row: &t.tree.OctaviaResource}}
}

func (t target) listeners() (all []*target) {
	for l := range each(t.tree.Listeners) {
		all = append(all, &target{tree: t.tree, listener: l, row: &l.OctaviaResource})
	}
	return all
}

func (t target) pools() (all []*target) {
	for p := range each(t.tree.Pools) {
		all = append(all, &target{tree: t.tree, pool: p, row: &p.OctaviaResource})
	}
	return all
}

func (t target) members() (all []*target) {
	for m := range each(t.pool.Members) {
		all = append(all, &target{tree: t.tree, pool: t.pool, member: m, row: &m.OctaviaResource})
	}
	return all
}

func (t target) monitors() (all []*target) {
	for p := range each(t.tree.Pools) {
		if m := p.Monitor; m != nil {
			all = append(all, &target{tree: t.tree, pool: p, row: &m.OctaviaResource})
		}
	}
	return all
}

// each returns pointers to the items of a list.
func each[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

func last[T any](list []T) *T { return &list[len(list)-1] }

// prepare finds the resources that the path of a request names, and reads the body of its kind.
func (r *request) prepare(hasBody bool) (err error) {
	if id := r.PathValue("pool"); id != "" {
		r.target, err = r.find(r.octavia.kinds.pool, id)
	}
	if id := r.PathValue("id"); id != "" && err == nil {
		r.target, err = r.find(r.kind, id)
	}
	if err == nil && hasBody {
		err = r.readBody()
	}
	return err
}

// all are the resources of a kind: those of the request's pool, or of all load balancers.
func (r *request) all(k kind) (all []*target) {
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
			return *t, admitCaller(r, t.tree.ProjectID)
		}
	}
	return target{}, notFound(k.called, id)
}

// list shows the page that the query selects (octavia/api/common/pagination.py) of the resources of
// the caller's project; of all resources to an administrator.
func list(r *request) (answer, error) {
	if project := r.Query.Get("project_id"); project != "" {
		if err := admitCaller(r, project); err != nil {
			return answer{}, err
		}
	}
	all := slices.DeleteFunc(r.all(r.kind),
		func(t *target) bool { return admitCaller(r, t.tree.ProjectID) != nil })
	selected, err := r.kind.fields.Select(all, r.Query, wsme(""))
	if err != nil {
		return answer{}, err
	}
	page, links, err := api.Paginate(r.Request, api.ServiceLoadBalancer, selected,
		func(t *target) string { return t.row.ID })
	if err != nil {
		return answer{}, err
	}
	shown, fields := []object{}, r.kind.fields.Named(r.Query["fields"])
	for _, t := range page {
		shown = append(shown, fields.Show(t))
	}
	name := r.kind.name + "s"
	return api.OK(object{name: shown, name + "_links": api.NonNil(links)}), nil
}

// get shows a resource, or the attributes of it that the query selects.
func get(r *request) (answer, error) {
	return api.OK(object{
		r.kind.name: r.kind.fields.Named(r.Query["fields"]).Show(&r.target),
	}), nil
}

// created is the answer to the creation of a resource.
func (r *request) created(made target) answer {
	return api.Created(object{r.kind.name: r.kind.fields.Show(&made)})
}

// update changes the row of the request's resource if admit allows it, and starts the work.
func update[T any](
	r *request, fields resource.Fields[T], row *T, admit func(changed *T) error,
) (answer, error) {
	changed := *row
	if err := fields.Read(&changed, r.given, false, r.kind.argument); err != nil {
		return answer{}, err
	}
	if err := admit(&changed); err != nil {
		return answer{}, err
	}
	*row = changed
	r.octavia.work(r.tree, r.pool, r.row, StatusPendingUpdate)
	return api.OK(object{r.kind.name: r.kind.fields.Show(&r.target)}), nil
}

// remove deletes a listener, whose pool stays, because other listeners may share it; a pool with
// members and monitor, whose listeners stay without a default pool; or a monitor.
func remove(r *request) (answer, error) {
	if err := r.mutable(); err != nil {
		return answer{}, err
	}
	r.octavia.work(r.tree, r.pool, r.row, StatusPendingDelete)
	return answer{Status: http.StatusNoContent}, nil
}
