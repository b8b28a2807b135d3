package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

type (
	CreateMonitor struct {
		Pool     Ref
		PoolName string
		Monitor  octavia.Monitor
	}
	UpdateMonitor struct {
		ID      string
		Monitor octavia.Monitor
		Changes []string
	}
	DeleteMonitor struct{ ID, Name, Why string }
)

func (s CreateMonitor) String() string {
	return fmt.Sprintf("create health monitor %s of pool %s", monitorText(s.Monitor), s.PoolName)
}

func (s CreateMonitor) quota() string { return "health monitors" }

func (s CreateMonitor) chosen() []string { return chosenForMonitor(&s.Monitor) }

func (s CreateMonitor) changesMonitor() {}

func (s CreateMonitor) predict(*predicted) bool { return false }

func (s CreateMonitor) take(ctx context.Context, r *run) error {
	return r.changeIn(ctx, s.Pool,
		func(pool string) error { return r.Octavia.CreateMonitor(ctx, pool, s.Monitor) })
}

func (s UpdateMonitor) String() string {
	return update("health monitor", s.ID, s.Monitor.Name, s.Changes)
}

func (s UpdateMonitor) chosen() []string { return chosenForMonitor(&s.Monitor) }

func (s UpdateMonitor) changesMonitor() {}

func (s UpdateMonitor) predict(*predicted) bool { return false }

func (s UpdateMonitor) take(ctx context.Context, r *run) error {
	return r.change(ctx, func() error { return r.Octavia.UpdateMonitor(ctx, s.ID, s.Monitor) })
}

func (s DeleteMonitor) String() string { return deletion("health monitor", s.ID, s.Name, s.Why) }

func (s DeleteMonitor) changesMonitor() {}

func (s DeleteMonitor) predict(*predicted) bool { return false }

func (s DeleteMonitor) take(ctx context.Context, r *run) error {
	return r.change(ctx, func() error { return r.Octavia.DeleteMonitor(ctx, s.ID) })
}

func chosenForMonitor(m *octavia.Monitor) []string {
	if m == nil {
		return nil
	}
	// With its unit, because the number alone could be any.
	return []string{(time.Duration(m.Delay) * time.Second).String()}
}

func monitorText(m octavia.Monitor) string {
	text := fmt.Sprintf("%s (%s, delay %d s, timeout %d s, max_retries %d, max_retries_down %d",
		m.Name, m.Type, m.Delay, m.Timeout, m.MaxRetries, m.MaxRetriesDown)
	if m.Type == octavia.MonitorHTTP {
		text += fmt.Sprintf(", %s %s expects %s", m.HTTPMethod, m.URLPath, m.ExpectedCodes)
	}
	return text + ")"
}
