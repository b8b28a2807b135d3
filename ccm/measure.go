package ccm

import (
	"errors"
	"time"

	"github.com/fxccm/fxccm/internal/metrics"
)

// measurement records the metrics of a term. It is nil for a term without leader election, which
// has no metrics.
type measurement struct {
	series *metrics.Series
	// since is the start of the phase that is measured next: the opening or the drain.
	since time.Time
}

func (t *Term) measure() *measurement {
	if t.provider == nil {
		return nil
	}
	t.series.TermBegan()
	t.series.Leading(true)
	return &measurement{series: t.series, since: time.Now()}
}

func (m *measurement) opened() {
	if m != nil {
		m.series.TermOpened(time.Since(m.since))
	}
}

func (m *measurement) drains() {
	if m != nil {
		m.since = time.Now()
	}
}

func (m *measurement) ended(err error) {
	if m == nil {
		return
	}
	m.series.Leading(false)
	m.series.TermEnded(endReason(err), time.Since(m.since))
}

func endReason(err error) metrics.EndReason {
	timedOut := (*DrainTimeoutError)(nil)
	switch {
	case errors.As(err, &timedOut):
		return metrics.DrainTimedOut
	case errors.Is(err, ErrLeadershipLost):
		return metrics.Lost
	case errors.Is(err, ErrStopped):
		return metrics.Stopped
	}
	return metrics.Failed
}
