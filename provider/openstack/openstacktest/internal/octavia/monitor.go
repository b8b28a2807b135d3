package octavia

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func createMonitor(r *request) (answer, error) {
	s, m := r.octavia, &HealthMonitor{}
	s.types.monitor.Complete(m)
	if err := s.types.monitor.Read(m, r.given, true, wsme("health_monitor_.healthmonitor"),
		"pool_id", "project_id", "tenant_id"); err != nil {
		return answer{}, err
	}
	id, err := mandatoryParent(r.given, "pool_id")
	if err != nil {
		return answer{}, err
	}
	parent, err := r.find(s.pools(), id)
	if err != nil {
		return answer{}, err
	}
	t, p := parent.tree, parent.pool
	if err := cmp.Or(
		admitMonitorType(m, p.Protocol),
		s.admitMore(t.ProjectID, QuotaHealthMonitor, "Health Monitor", 1),
		t.mutablePool(p),
		admitMonitor(m, p.Protocol),
		admitNoMonitor(p),
		driverOf(t.Provider).admitMonitor(m),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &m.OctaviaResource)
	p.monitor = m
	s.work(t, p, &m.OctaviaResource, StatusPendingCreate)
	return api.Created(object{"healthmonitor": s.showMonitor(p)}), nil
}

func admitNoMonitor(p *poolTree) error {
	if p.monitor != nil {
		return refuse(http.StatusConflict, "This pool already has a health monitor")
	}
	return nil
}

func updateMonitor(r *request) (answer, error) {
	s, t, p := r.octavia, r.tree, r.pool
	changed := *p.monitor
	if err := s.types.monitor.Read(&changed, r.given, false,
		wsme("health_monitor_.healthmonitor")); err != nil {
		return answer{}, err
	}
	if err := cmp.Or(
		admitMonitorChange(p.monitor, r.given), admitMonitor(&changed, p.Protocol),
		t.mutablePool(p),
	); err != nil {
		return answer{}, err
	}
	*p.monitor = changed
	s.work(t, p, &p.monitor.OctaviaResource, StatusPendingUpdate)
	return api.OK(object{"healthmonitor": s.showMonitor(p)}), nil
}

// admitMonitorChange refuses attributes of HTTP for other types, even null (_validate_update_hm).
func admitMonitorChange(m *HealthMonitor, given map[string]json.RawMessage) error {
	for _, name := range []string{"http_method", "url_path", "expected_codes"} {
		if _, has := given[name]; has && m.Type != monitorHTTP && m.Type != monitorHTTPS {
			return badOption(name, "health monitors of type "+m.Type)
		}
	}
	return nil
}
