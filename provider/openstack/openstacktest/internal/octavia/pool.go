package octavia

import (
	"cmp"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func createPool(r *request) (answer, error) {
	s, p, given := r.octavia, &poolTree{}, r.given
	if err := s.types.pool.Read(&p.Pool, given, true, wsme("pool_.pool"), "loadbalancer_id",
		"listener_id", "project_id", "tenant_id"); err != nil {
		return answer{}, err
	}
	if present(given, "session_persistence") &&
		(p.SessionPersistence == nil || p.SessionPersistence.Type == "") {
		return answer{}, badInput("type", "None", "Mandatory field missing.")
	}
	t, l, err := parentsOfPool(r, parentID(given, "loadbalancer_id"),
		parentID(given, "listener_id"))
	if err != nil {
		return answer{}, err
	}
	// Octavia ignores the listener's protocol if the body also names the load balancer.
	if l != nil && !present(given, "loadbalancer_id") {
		err = admitProtocols(l.Protocol, p.Protocol)
	}
	if err := cmp.Or(
		err,
		admitPersistence(&p.Pool, "UDP and SCTP"),
		s.admitMore(t.ProjectID, QuotaPool, "Pool", 1),
		admitNoPool(l),
		t.mutable(),
		driverOf(t.Provider).admitPool(&p.Pool),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &p.OctaviaResource)
	t.pools = append(t.pools, p)
	if l != nil {
		l.DefaultPoolID = p.ID
	}
	t.pendListeners(p, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return api.Created(object{"pool": s.showPool(t, p)}), nil
}

func admitNoPool(l *Listener) error {
	if l != nil && l.DefaultPoolID != "" {
		return refuse(http.StatusConflict, "This listener already has a default pool")
	}
	return nil
}

// parentsOfPool are the load balancer and, if the body names one, the listener.
func parentsOfPool(r *request, loadBalancerID, listenerID string) (*tree, *Listener, error) {
	kind, id := r.octavia.listeners(), listenerID
	switch {
	case loadBalancerID == "" && listenerID == "":
		return nil, nil, invalid("Must provide at least one of: loadbalancer_id, listener_id")
	case listenerID == "":
		kind, id = r.octavia.loadBalancers(), loadBalancerID
	}
	parent, err := r.find(kind, id)
	return parent.tree, parent.listener, err
}

func updatePool(r *request) (answer, error) {
	s, t, p := r.octavia, r.tree, r.pool
	changed := p.Pool
	if err := s.types.pool.Read(&changed, r.given, false, wsme("pool_.pool")); err != nil {
		return answer{}, err
	}
	if err := cmp.Or(
		admitPersistence(&changed, "UDP"), t.mutable(),
		driverOf(t.Provider).admitPool(&changed),
	); err != nil {
		return answer{}, err
	}
	p.Pool = changed
	s.work(t, p, &p.OctaviaResource, StatusPendingUpdate)
	return api.OK(object{"pool": s.showPool(t, p)}), nil
}
