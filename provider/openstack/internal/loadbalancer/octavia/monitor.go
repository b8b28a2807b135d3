package octavia

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// monitorQuestion requests the health monitors of the project. Callers share the answer, and must
// not change it.
type monitorQuestion struct {
	byID map[string]*Monitor
	err  error
}

func (a *API) answerMonitors(ctx context.Context, asked []*monitorQuestion) {
	byID, _, err := sharing.Of(ctx, a.share, a.clock, "monitors", a.clock.Now(), a.listMonitors)
	for _, q := range asked {
		q.byID, q.err = byID, err
	}
}

// listMonitors lists the monitors of all load balancers: no filter exists for one load balancer.
func (a *API) listMonitors(ctx context.Context) (map[string]*Monitor, error) {
	project, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {project}, "fields": fieldsOf[Monitor]()}
	shown, err := list(ctx, a, "healthmonitors", "healthmonitors", query,
		func(m *Monitor) string { return m.ID })
	if err != nil {
		return nil, fmt.Errorf("list health monitors: %w", err)
	}
	byID := make(map[string]*Monitor, len(shown))
	for i := range shown {
		byID[shown[i].ID] = &shown[i]
	}
	return byID, nil
}

// readMonitors returns the monitors with these ids, from a list of all if it is given.
func (a *API) readMonitors(
	ctx context.Context, ids []string, listed map[string]*Monitor,
) (map[string]*Monitor, error) {
	if listed == nil {
		var q monitorQuestion
		if err := a.monitors.Ask(ctx, &q); err != nil {
			return nil, err
		}
		if q.err != nil {
			return nil, q.err
		}
		listed = q.byID
	}
	monitors := map[string]*Monitor{}
	for _, id := range ids {
		shown := listed[id]
		if shown == nil {
			// The monitor may be another project's, which an administrator may use.
			var err error
			if shown, err = a.getMonitor(ctx, id); err != nil {
				return nil, fmt.Errorf("get health monitor %s: %w", id, err)
			}
		}
		monitors[id] = shown
	}
	return monitors, nil
}

func (a *API) getMonitor(ctx context.Context, id string) (*Monitor, error) {
	var body struct {
		Monitor *Monitor `json:"healthmonitor"`
	}
	if err := a.get(ctx, "healthmonitors/"+url.PathEscape(id), nil, &body); err != nil {
		return nil, err
	}
	if body.Monitor == nil || !strings.EqualFold(body.Monitor.ID, id) {
		return nil, errNoAnswer
	}
	return body.Monitor, nil
}
