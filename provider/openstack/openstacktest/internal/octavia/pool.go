package octavia

import (
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listPools(r *request) (answer, error) {
	view, items := viewOf(r), []listItem{}
	for _, t := range visibleTrees(r) {
		for _, p := range t.pools {
			items = append(items, listItem{view.pool(t, p), p.parents(t)})
		}
	}
	return list(r, "pools", filterable(poolFields(), view.minor), items, "loadbalancer_id",
		"load_balancer_id", "healthmonitor_id")
}

// parents is by what else a pool is found.
func (p *poolTree) parents(t *tree) map[string]string {
	monitor := ""
	if p.monitor != nil {
		monitor = p.monitor.ID
	}
	return map[string]string{
		"loadbalancer_id": t.ID, "load_balancer_id": t.ID,
		"healthmonitor_id": monitor,
	}
}

func getPool(r *request) (answer, error) {
	t, p, err := findPool(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"pool": selectFields(viewOf(r).pool(t, p), r.Query["fields"])}), nil
}

func createPool(r *request) (answer, error) {
	given, err := bodyOf(r, "pool")
	if err != nil {
		return answer{}, err
	}
	s, view, p := r.octavia, viewOf(r), &poolTree{}
	handled := []string{
		"loadbalancer_id", "listener_id", "project_id", "tenant_id", "members",
		"healthmonitor",
	}
	if err := poolFields().read(&p.Pool, given, true, view.minor, "pool_.pool",
		handled...); err != nil {
		return answer{}, err
	}
	if err := persistenceHasType(given); err != nil {
		return answer{}, err
	}
	loadBalancerID := withHyphens(parentID(given, "loadbalancer_id"))
	t, l, err := parentsOfPool(r, loadBalancerID, withHyphens(parentID(given, "listener_id")))
	if err != nil {
		return answer{}, err
	}
	// The listener is not looked at when the load balancer is named too.
	if l != nil && loadBalancerID == "" {
		if err := admitProtocols(l.Protocol, p.Protocol); err != nil {
			return answer{}, err
		}
	}
	if err := admitPersistence(&p.Pool, "UDP and SCTP"); err != nil {
		return answer{}, err
	}
	if err := s.admitMore(t.ProjectID, QuotaPool, "Pool", 1); err != nil {
		return answer{}, err
	}
	if l != nil && l.DefaultPoolID != "" {
		return answer{}, refuse(409, "This listener already has a default pool")
	}
	if err := t.mutable(); err != nil {
		return answer{}, err
	}
	if present(given, "members") || present(given, "healthmonitor") {
		// They are known to WSME, and then too much for the database.
		return answer{},
			refuse(http.StatusInternalServerError,
				"'dict' object has no attribute '_sa_instance_state'")
	}
	if err := s.admitPoolOf(t, &p.Pool); err != nil {
		return answer{}, err
	}
	s.add(t, &p.OctaviaResource)
	t.pools = append(t.pools, p)
	if l != nil {
		l.DefaultPoolID = p.ID
	}
	t.pendListeners(p, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return api.Created(object{"pool": view.pool(t, p)}), nil
}

// parentsOfPool are the load balancer and, if one is named, the listener.
func parentsOfPool(r *request, loadBalancerID, listenerID string) (*tree, *Listener, error) {
	if loadBalancerID == "" && listenerID == "" {
		return nil, nil,
			invalid("Must provide at least one of: loadbalancer_id, listener_id")
	}
	if loadBalancerID != "" {
		t, err := findTree(r, loadBalancerID)
		if err != nil || listenerID == "" {
			return t, nil, err
		}
		l := t.listener(listenerID)
		if l == nil {
			return nil, nil,
				refuse(http.StatusInternalServerError,
					"'NoneType' object has no attribute 'default_pool'")
		}
		return t, l, nil
	}
	t, l, err := findListener(r, listenerID)
	if l == nil {
		// That there is no such listener is not looked at (PoolsController.post).
		err = refuse(http.StatusInternalServerError,
			"'NoneType' object has no attribute 'load_balancer_id'")
	}
	return t, l, err
}

// present tells whether the body says something of an attribute.
func present(given map[string]json.RawMessage, name string) bool {
	raw, said := given[name]
	return said && !isJSONNull(raw)
}

// persistenceHasType: a creation must name the type.
func persistenceHasType(given map[string]json.RawMessage) error {
	persistence, err := child(given, "session_persistence")
	if err == nil && persistence != nil && !present(persistence, "type") {
		return badInput("type", "None", "Mandatory field missing.")
	}
	return err
}

// admitPoolOf checks a pool that is made or changed.
func (s *Service) admitPoolOf(t *tree, p *Pool) error {
	if err := admitRevocation(p); err != nil {
		return err
	}
	return s.options.provider(t.Provider).admitPool(p)
}

func updatePool(r *request) (answer, error) {
	given, err := bodyOf(r, "pool")
	if err != nil {
		return answer{}, err
	}
	t, p, err := findPool(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	s, view, changed := r.octavia, viewOf(r), p.Pool
	if err := poolFields().read(&changed, given, false, view.minor, "pool_.pool"); err != nil {
		return answer{}, err
	}
	if err := admitRevocation(&changed); err != nil {
		return answer{}, err
	}
	if err := admitPersistence(&changed, "UDP"); err != nil {
		return answer{}, err
	}
	if err := t.mutable(); err != nil {
		return answer{}, err
	}
	if err := s.admitPoolOf(t, &changed); err != nil {
		return answer{}, err
	}
	p.Pool = changed
	t.pendPool(p, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return api.OK(object{"pool": view.pool(t, p)}), nil
}

// deletePool deletes the members and the monitor too; the listeners stay without a default pool.
func deletePool(r *request) (answer, error) {
	t, p, err := findPool(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := t.mutable(); err != nil {
		return answer{}, err
	}
	now := r.octavia.Clock.Now()
	t.pendListeners(p, now)
	t.set(&p.OctaviaResource, StatusPendingDelete, now)
	r.octavia.startWork(t, StatusPendingUpdate)
	return api.NoContent(), nil
}
