package octavia

import (
	"cmp"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func createPool(r *request) (answer, error) {
	s, given := r.octavia, r.given
	p, err := readNew(s.types.pool, given, r.kind.argument, "loadbalancer_id", "listener_id",
		"project_id", "tenant_id")
	if err != nil {
		return answer{}, err
	}
	if present(given, "session_persistence") &&
		(p.SessionPersistence == nil || p.SessionPersistence.Type == "") {
		return answer{}, badInput("type", "None", "Mandatory field missing.")
	}
	parent, err := r.parentOfPool()
	if err != nil {
		return answer{}, err
	}
	t, l := parent.tree, parent.listener
	// Octavia ignores the listener's protocol if the body also names the load balancer.
	if l != nil && !present(given, "loadbalancer_id") {
		err = admitProtocols(l.Protocol, p.Protocol)
	}
	if err := cmp.Or(
		err,
		admitPersistence(p, "UDP and SCTP"),
		s.admitMore(t.ProjectID, QuotaPool, 1),
		admitNoPool(l),
		t.mutable(),
		admitAlgorithm(t, p),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &p.OctaviaResource)
	if l != nil {
		l.DefaultPoolID = p.ID
	}
	t.Pools = append(t.Pools, *p)
	t.pendListeners(p, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return r.created(target{tree: t, pool: last(t.Pools)}), nil
}

func admitNoPool(l *Listener) error {
	if l != nil && l.DefaultPoolID != "" {
		return api.Refuse(http.StatusConflict, "This listener already has a default pool")
	}
	return nil
}

// admitAlgorithm refuses the algorithm of OVN's provider.
func admitAlgorithm(t *tree, p *Pool) error {
	if t.Provider != providerOVN && p.LBAlgorithm == "SOURCE_IP_PORT" {
		return api.Refuse(http.StatusNotImplemented, "Provider '%s' does not support a requested "+
			"option: Amphora provider does not support SOURCE_IP_PORT algorithm.", t.Provider)
	}
	return nil
}

// parentOfPool is the listener that the body names, or the load balancer.
func (r *request) parentOfPool() (target, error) {
	loadBalancerID, listenerID := parentID(r.given, "loadbalancer_id"),
		parentID(r.given, "listener_id")
	switch {
	case listenerID != "":
		return r.find(r.octavia.kinds.listener, listenerID)
	case loadBalancerID != "":
		return r.find(r.octavia.kinds.loadBalancer, loadBalancerID)
	}
	return target{}, invalid("Must provide at least one of: loadbalancer_id, listener_id")
}

func updatePool(r *request) (answer, error) {
	return update(r, r.octavia.types.pool, r.pool, func(changed *Pool) error {
		return cmp.Or(
			admitPersistence(changed, "UDP"), r.tree.mutable(), admitAlgorithm(r.tree, changed),
		)
	})
}
