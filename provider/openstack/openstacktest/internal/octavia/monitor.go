package octavia

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listMonitors(r *request) (answer, error) {
	s, items := r.octavia, []listItem{}
	for _, t := range visibleTrees(r) {
		for _, p := range t.pools {
			if p.monitor != nil {
				items = append(items, listItem{s.showMonitor(p), p.parents()})
			}
		}
	}
	return list(r, "healthmonitors", filterable(s.types.monitor, "pool_id"), items)
}

func getMonitor(r *request) (answer, error) {
	_, p, err := findMonitor(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return r.show("healthmonitor", r.octavia.showMonitor(p)), nil
}

func createMonitor(r *request) (answer, error) {
	s, m := r.octavia, &HealthMonitor{}
	s.types.monitor.Complete(m)
	given, err := bodyOf(r, "healthmonitor")
	if err != nil {
		return answer{}, err
	}
	if err := s.types.monitor.Read(m, given, true, wsme("health_monitor_.healthmonitor"), "pool_id",
		"project_id", "tenant_id"); err != nil {
		return answer{}, err
	}
	id, err := mandatoryParent(given, "pool_id")
	if err != nil {
		return answer{}, err
	}
	t, p, err := findPool(r, id)
	if err != nil {
		return answer{}, err
	}
	if err := cmp.Or(
		admitMonitorType(m, p.Protocol),
		s.admitMore(t.ProjectID, QuotaHealthMonitor, "Health Monitor", 1),
		t.mutablePool(p),
		admitMonitor(m, p.Protocol),
		admitNoMonitor(p),
		s.options.driver(t.Provider).admitMonitor(m),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &m.OctaviaResource)
	p.monitor = m
	t.pendPool(p, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return api.Created(object{"healthmonitor": s.showMonitor(p)}), nil
}

func admitNoMonitor(p *poolTree) error {
	if p.monitor != nil {
		return refuse(http.StatusConflict, "This pool already has a health monitor")
	}
	return nil
}

func updateMonitor(r *request) (answer, error) {
	t, p, err := findMonitor(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	s, changed := r.octavia, *p.monitor
	given, err := bodyOf(r, "healthmonitor")
	if err != nil {
		return answer{}, err
	}
	if err := s.types.monitor.Read(&changed, given, false,
		wsme("health_monitor_.healthmonitor")); err != nil {
		return answer{}, err
	}
	if err := cmp.Or(
		admitMonitorChange(p.monitor, given), admitMonitor(&changed, p.Protocol), t.mutablePool(p),
	); err != nil {
		return answer{}, err
	}
	now := s.Clock.Now()
	*p.monitor = changed
	t.set(&p.monitor.OctaviaResource, StatusPendingUpdate, now)
	t.pendPool(p, now)
	s.startWork(t, StatusPendingUpdate)
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

func deleteMonitor(r *request) (answer, error) {
	t, p, err := findMonitor(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	now := r.octavia.Clock.Now()
	t.set(&p.monitor.OctaviaResource, StatusPendingDelete, now)
	t.pendPool(p, now)
	r.octavia.startWork(t, StatusPendingUpdate)
	return api.NoContent(), nil
}
