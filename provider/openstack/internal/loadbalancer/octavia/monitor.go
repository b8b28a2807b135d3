package octavia

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// shownMonitor is a health monitor as Octavia shows it.
type shownMonitor struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Type           string `json:"type"`
	Delay          int    `json:"delay"`
	Timeout        int    `json:"timeout"`
	MaxRetries     int    `json:"max_retries"`
	MaxRetriesDown int    `json:"max_retries_down"`
	HTTPMethod     string `json:"http_method"`
	URLPath        string `json:"url_path"`
	ExpectedCodes  string `json:"expected_codes"`
	Status         Status `json:"provisioning_status"`
}

func monitorFields() []string {
	return []string{
		"id", "name", "type", "delay", "timeout", "max_retries", "max_retries_down", "http_method",
		"url_path", "expected_codes",
		"provisioning_status",
	}
}

func (s *shownMonitor) value() *Monitor {
	return &Monitor{
		ID: s.ID, Name: s.Name, Type: s.Type, Delay: s.Delay, Timeout: s.Timeout,
		MaxRetries: s.MaxRetries, MaxRetriesDown: s.MaxRetriesDown,
		HTTPMethod: s.HTTPMethod, URLPath: s.URLPath, ExpectedCodes: s.ExpectedCodes,
		Status: s.Status,
	}
}

// monitorQuestion asks for the health monitors of the project. Callers share the answer, and do not
// change it.
type monitorQuestion struct {
	byID map[string]*shownMonitor
	err  error
}

func (a *API) answerMonitors(ctx context.Context, asked []*monitorQuestion) {
	byID, err := a.listMonitors(ctx)
	for _, q := range asked {
		q.byID, q.err = byID, err
	}
}

// listMonitors lists those of all load balancers: no filter is for those of one.
func (a *API) listMonitors(ctx context.Context) (map[string]*shownMonitor, error) {
	project, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {project}, "fields": monitorFields()}
	shown, err := list(ctx, a, "healthmonitors", "healthmonitors", query,
		func(s *shownMonitor) string { return s.ID })
	if err != nil {
		return nil, fmt.Errorf("list health monitors: %w", err)
	}
	byID := make(map[string]*shownMonitor, len(shown))
	for i := range shown {
		byID[shown[i].ID] = &shown[i]
	}
	return byID, nil
}

// readMonitors returns copies of the monitors with these ids, from a list of all if it is given.
func (a *API) readMonitors(
	ctx context.Context, ids []string, listed map[string]*shownMonitor,
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
			// It may be another project's, which an administrator may use.
			var err error
			if shown, err = a.getMonitor(ctx, id); err != nil {
				return nil, fmt.Errorf("get health monitor %s: %w", id, err)
			}
		}
		monitors[id] = shown.value()
	}
	return monitors, nil
}

func (a *API) getMonitor(ctx context.Context, id string) (*shownMonitor, error) {
	var body struct {
		Monitor *shownMonitor `json:"healthmonitor"`
	}
	if err := a.get(ctx, "healthmonitors/"+url.PathEscape(id), nil, &body); err != nil {
		return nil, err
	}
	if body.Monitor == nil || !strings.EqualFold(body.Monitor.ID, id) {
		return nil, errNoAnswer
	}
	return body.Monitor, nil
}
