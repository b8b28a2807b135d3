package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/guard"
)

// A Set holds the metrics of one Manager in a registerer. It is safe for concurrent use.
type Set struct {
	manager string
	group   *Group[*collectors]
}

// New registers the metrics, unless another Manager has registered them. They have no series before
// [Set.Begin]. With a nil registerer they are not registered. The error names the manager, or the
// metric that the registerer refuses.
func New(registerer prometheus.Registerer, manager string) (*Set, error) {
	group, err := Share(registerer, manager, newCollectors)
	if err != nil {
		return nil, err
	}
	return &Set{manager: manager, group: group}, nil
}

// Begin begins the series of one run of the Manager. Series whose labels are known beforehand begin
// with 0.
func (s *Set) Begin() *Series {
	series := &Series{manager: s.manager}
	series.owner = s.group.Begin(s.manager, series.zero)
	return series
}

// Series counts and times one run of a Manager, as a [guard.Observer] and by methods for its terms.
// It is safe for concurrent use. Calls after the series have been deleted are not counted.
type Series struct {
	manager string
	owner   *Owner[*collectors]

	// leading is changed by the owner alone.
	leading bool
}

func (s *Series) zero(c *collectors) {
	c.leading.WithLabelValues(s.manager)
	c.terms.WithLabelValues(s.manager)
	for _, reason := range endReasons() {
		c.termsEnded.WithLabelValues(s.manager, string(reason))
	}
	c.termOpenDuration.WithLabelValues(s.manager)
	c.termDrainDuration.WithLabelValues(s.manager)
	for _, door := range doors() {
		c.fenceRefused.WithLabelValues(s.manager, string(door))
	}
}

// End deletes the series, unless another Manager of the same name runs. Another call does nothing.
func (s *Series) End() {
	s.owner.End(func(c *collectors) {
		s.setLeading(c, false)
		c.states.remove(s)
	})
}

// Leading records whether the Manager leads. Initially it does not lead.
func (s *Series) Leading(leads bool) {
	s.owner.Alone(func(c *collectors) { s.setLeading(c, leads) })
}

// setLeading adds to the value, because several Managers may have the name.
func (s *Series) setLeading(c *collectors, leads bool) {
	if s.leading == leads {
		return
	}
	s.leading = leads
	if leads {
		c.leading.WithLabelValues(s.manager).Inc()
	} else {
		c.leading.WithLabelValues(s.manager).Dec()
	}
}

// TermBegan counts a term.
func (s *Series) TermBegan() {
	s.owner.Record(func(c *collectors) { c.terms.WithLabelValues(s.manager).Inc() })
}

// TermOpened records the time from the beginning of a term until its controllers ran.
func (s *Series) TermOpened(after time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.termOpenDuration.WithLabelValues(s.manager).Observe(after.Seconds())
	})
}

// TermEnded counts the end of a term, and records the time from the reason for the end until the
// term had ended, or until the drain timeout.
func (s *Series) TermEnded(reason EndReason, drain time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.termsEnded.WithLabelValues(s.manager, string(reason)).Inc()
		c.termDrainDuration.WithLabelValues(s.manager).Observe(drain.Seconds())
	})
}

// Refused counts a request that the fence refused at a door. [Series.CallRefused] counts the
// guard's refusals.
func (s *Series) Refused(door Door) {
	s.owner.Record(func(c *collectors) {
		c.fenceRefused.WithLabelValues(s.manager,
			string(door)).Inc()
	})
}

// Trouble records whether the provider reports a problem of the cloud.
func (s *Series) Trouble(subject string, present bool) {
	s.owner.Record(func(c *collectors) {
		series := c.cloudTrouble.WithLabelValues(s.manager, subject)
		if present {
			series.Set(1)
		} else {
			series.Set(0)
		}
	})
}

// CallStarted implements [guard.Observer].
func (s *Series) CallStarted(iface, method string) {
	s.owner.Record(func(c *collectors) {
		c.callsInFlight.WithLabelValues(s.manager, iface,
			method).Inc()
	})
}

// CallEnded implements [guard.Observer].
func (s *Series) CallEnded(iface, method string, result guard.Result, duration time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.callsInFlight.WithLabelValues(s.manager, iface, method).Dec()
		c.callDuration.WithLabelValues(s.manager, iface, method,
			string(result)).Observe(duration.Seconds())
	})
}

// CallRefused implements [guard.Observer].
func (s *Series) CallRefused(iface, method string) {
	s.owner.Record(func(c *collectors) {
		c.callDuration.WithLabelValues(s.manager, iface, method, string(guard.Refused)).Observe(0)
		c.fenceRefused.WithLabelValues(s.manager, string(DoorCloud)).Inc()
	})
}
