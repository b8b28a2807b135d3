package ccm

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/printable"
)

// maxTerms bounds the history of terms in [status.Manager].
const maxTerms = 10

// measurement records the metrics and the history of a term. It is nil for a term without leader
// election, which has neither.
type measurement struct {
	series *metrics.Series
	// since is the start of the phase that is measured next: the opening or the drain.
	since time.Time

	clock   clock.PassiveClock
	history *termHistory
	status  status.Term
}

func (t *termRun) measure() *measurement {
	if t.provider == nil {
		return nil
	}
	t.series.TermBegan()
	t.series.Leading(true)
	m := &measurement{
		series: t.series, since: time.Now(), clock: t.clock, history: t.history,
		status: status.Term{Number: t.number, Began: t.clock.Now()},
	}
	m.history.record(m.status)
	return m
}

func (m *measurement) opened() {
	if m == nil {
		return
	}
	m.series.TermOpened(time.Since(m.since))
	m.status.Opened = m.clock.Now()
	m.history.record(m.status)
}

func (m *measurement) drains(cause error) {
	if m == nil {
		return
	}
	m.since = time.Now()
	m.status.DrainBegan = m.clock.Now()
	m.status.Reason = printable.Text(cause.Error(), maxReason)
	m.history.record(m.status)
}

func (m *measurement) ended(err error) {
	if m == nil {
		return
	}
	m.series.Leading(false)
	reason := endReason(err)
	m.series.TermEnded(reason, time.Since(m.since))
	m.status.Ended, m.status.End = m.clock.Now(), string(reason)
	if reason == metrics.DrainTimedOut {
		m.status.Reason += "; " + printable.Text(err.Error(), maxReason)
	}
	m.history.record(m.status)
}

func endReason(err error) metrics.EndReason {
	timedOut := (*DrainTimeoutError)(nil)
	switch {
	case errors.As(err, &timedOut):
		return metrics.DrainTimedOut
	case errors.Is(err, election.ErrLost):
		return metrics.Lost
	case errors.Is(err, ErrStopped):
		return metrics.Stopped
	}
	return metrics.Failed
}

// termHistory has the last terms of a Manager, oldest first. It is safe for concurrent use.
type termHistory struct {
	mu    sync.Mutex
	terms []status.Term
}

// record adds a term, or replaces its earlier record.
func (h *termHistory) record(term status.Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.terms, func(t status.Term) bool { return t.Number == term.Number })
	if i >= 0 {
		h.terms[i] = term
		return
	}
	h.terms = append(h.terms, term)
	if len(h.terms) > maxTerms {
		h.terms = slices.Delete(h.terms, 0, len(h.terms)-maxTerms)
	}
}

// list returns the terms, newest first.
func (h *termHistory) list() []status.Term {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.terms)
	slices.Reverse(all)
	return all
}
