package octavia

import (
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listMonitors(r *request) (answer, error) {
	view, items := viewOf(r), []listItem{}
	for _, t := range visibleTrees(r) {
		for _, p := range t.pools {
			if p.monitor != nil {
				items = append(items,
					listItem{view.monitor(p), map[string]string{"pool_id": p.ID}})
			}
		}
	}
	return list(r, "healthmonitors", filterable(monitorFields(), view.minor), items,
		"pool_id")
}

func getMonitor(r *request) (answer, error) {
	_, p, err := findMonitor(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"healthmonitor": selectFields(viewOf(r).monitor(p), r.Query["fields"])}),
		nil
}

func createMonitor(r *request) (answer, error) {
	given, err := bodyOf(r, "healthmonitor")
	if err != nil {
		return answer{}, err
	}
	s, view, m := r.octavia, viewOf(r), newMonitor()
	handled := []string{"pool_id", "project_id", "tenant_id"}
	if err := monitorFields().read(m, given, true, view.minor, "health_monitor_.healthmonitor",
		handled...); err != nil {
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
	if err := admitMonitorType(m, p.Protocol); err != nil {
		return answer{}, err
	}
	if err := s.admitMore(t.ProjectID, QuotaHealthMonitor, "Health Monitor",
		1); err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	if err := admitMonitor(m, p.Protocol); err != nil {
		return answer{}, err
	}
	if p.monitor != nil {
		return answer{}, refuse(409, "This pool already has a health monitor")
	}
	if err := s.options.provider(t.Provider).admitMonitor(m); err != nil {
		return answer{}, err
	}
	s.add(t, &m.OctaviaResource)
	p.monitor = m
	t.pendPool(p, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return api.Created(object{"healthmonitor": view.monitor(p)}), nil
}

func updateMonitor(r *request) (answer, error) {
	given, err := bodyOf(r, "healthmonitor")
	if err != nil {
		return answer{}, err
	}
	t, p, err := findMonitor(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	s, view, changed := r.octavia, viewOf(r), *p.monitor
	if err := monitorFields().read(&changed, given, false, view.minor,
		"health_monitor_.healthmonitor"); err != nil {
		return answer{}, err
	}
	if err := admitMonitorChange(p.monitor, given, p.Protocol); err != nil {
		return answer{}, err
	}
	if err := admitMonitor(&changed, p.Protocol); err != nil {
		return answer{}, err
	}
	if err := t.mutablePool(p); err != nil {
		return answer{}, err
	}
	now := s.Clock.Now()
	*p.monitor = changed
	t.set(&p.monitor.OctaviaResource, StatusPendingUpdate, now)
	t.pendPool(p, now)
	s.startWork(t, StatusPendingUpdate)
	return api.OK(object{"healthmonitor": view.monitor(p)}), nil
}

// admitMonitorChange refuses what is wrong just because it is in the body, or is not
// (_validate_update_hm).
func admitMonitorChange(m *HealthMonitor, given map[string]json.RawMessage, protocol string) error {
	for _, name := range []string{"http_method", "url_path", "expected_codes"} {
		if _, said := given[name]; said && m.Type != monitorHTTP && m.Type != monitorHTTPS {
			return badOption(name, "health monitors of type "+m.Type)
		}
	}
	if _, said := given["delay"]; !said && isDatagram(protocol) && m.Type == monitorUDPConnect {
		// The delay is compared with the shortest one, although UDP has no timeout.
		return refuse(http.StatusInternalServerError,
			"'<' not supported between instances of 'UnsetType' and 'int'")
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
