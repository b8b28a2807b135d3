package ccm

import (
	"errors"
	"time"

	"github.com/fxccm/fxccm/internal/metrics"
)

// measurement tells the metrics what becomes of a term. Nil measures nothing: a term without the lease is none to them.
type measurement struct {
	series *metrics.Series
	// since is when the phase of the term began that is measured next: its opening, or its drain.
	since time.Time
}

func (t *Term) measure() *measurement {
	if t.provider == nil {
		return nil
	}
	t.observed.TermBegan()
	t.observed.Leading(true)
	return &measurement{series: t.observed, since: time.Now()}
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
