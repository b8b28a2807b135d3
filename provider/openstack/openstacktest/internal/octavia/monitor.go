package octavia

import (
	"cmp"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func createMonitor(r *request) (answer, error) {
	s := r.octavia
	m, err := readNew(s.types.monitor, r.given, r.kind.argument, "pool_id", "project_id",
		"tenant_id")
	if err != nil {
		return answer{}, err
	}
	parent, err := r.mandatoryParent(s.kinds.pool, "pool_id")
	if err != nil {
		return answer{}, err
	}
	t, p := parent.tree, parent.pool
	if err := cmp.Or(
		admitMonitorType(m, p.Protocol),
		s.admitMore(t.ProjectID, QuotaHealthMonitor, 1),
		t.mutablePool(p),
		admitMonitor(m, p.Protocol),
		admitNoMonitor(p),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &m.OctaviaResource)
	p.Monitor = m
	s.work(t, p, &m.OctaviaResource, StatusPendingCreate)
	return r.created(parent), nil
}

func admitNoMonitor(p *Pool) error {
	if p.Monitor != nil {
		return api.Refuse(http.StatusConflict, "This pool already has a health monitor")
	}
	return nil
}

func updateMonitor(r *request) (answer, error) {
	t, p := r.tree, r.pool
	return update(r, r.octavia.types.monitor, p.Monitor, func(changed *HealthMonitor) error {
		return cmp.Or(
			admitMonitorChange(p.Monitor, r.given), admitMonitor(changed, p.Protocol),
			t.mutablePool(p),
		)
	})
}

// admitMonitorChange refuses attributes of HTTP for other types, even null (_validate_update_hm).
func admitMonitorChange(m *HealthMonitor, given body) error {
	for _, name := range []string{"http_method", "url_path", "expected_codes"} {
		if _, has := given[name]; has && m.Type != monitorHTTP && m.Type != monitorHTTPS {
			return badOption(name, "health monitors of type "+m.Type)
		}
	}
	return nil
}
