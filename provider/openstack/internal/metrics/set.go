package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// A Set is the place of one Manager's cloud in a registerer. It is safe for concurrent use.
type Set struct {
	manager string
	group   *metrics.Group[*collectors]
}

// New makes sure that the registerer has the metrics, which all clouds that it is given to share. There are no series
// before [Set.Begin]. Nil registers nowhere. The error names the manager, or the metric that the registerer refuses.
func New(registerer prometheus.Registerer, manager string) (*Set, error) {
	if err := metrics.CheckManager(manager); err != nil {
		return nil, err
	}
	group, err := metrics.Share(registerer, newCollectors())
	if err != nil {
		return nil, fmt.Errorf("OpenStack: %w", err)
	}
	return &Set{manager: manager, group: group}, nil
}

// Begin begins the series of one cloud, which lives for a term. Those whose labels are known beforehand are there at once, with 0.
func (s *Set) Begin() *Series {
	series := &Series{manager: s.manager}
	series.owner = s.group.Begin(s.manager, series.zero)
	return series
}

// Series counts and times what one cloud does. It is safe for concurrent use. What comes when the series have been deleted is
// not counted.
type Series struct {
	manager string
	owner   *metrics.Owner[*collectors]

	// absent is changed by the owner alone.
	absent int
}

func (s *Series) zero(c *collectors) {
	for _, reason := range retryReasons() {
		c.requestRetries.WithLabelValues(s.manager, reason)
	}
	for _, result := range loginResults() {
		c.logins.WithLabelValues(s.manager, result)
	}
	c.rateLimitWait.WithLabelValues(s.manager)
	for _, source := range lookupSources() {
		c.lookups.WithLabelValues(s.manager, source)
	}
	c.absentInstances.WithLabelValues(s.manager)
	c.absenceRefused.WithLabelValues(s.manager)
	for _, operation := range reconcileOperations() {
		c.occmReconcileDuration.WithLabelValues(operation)
		c.occmReconciles.WithLabelValues(operation)
		c.occmReconcileErrors.WithLabelValues(operation)
	}
}

// End deletes the series, unless another cloud of the same name lives. Another call does nothing. The metrics with OCCM's names
// stay: they do not tell whose they are.
func (s *Series) End() { s.owner.End(func(c *collectors) { s.setAbsent(c, 0) }) }

// RequestStarted tells that a request is on its way to a service.
func (s *Series) RequestStarted(service string) {
	s.owner.Record(func(c *collectors) { c.requestsInFlight.WithLabelValues(s.manager, service).Inc() })
}

// RequestEnded tells what came of a request that was started.
func (s *Series) RequestEnded(service, operation, code string, duration time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.requestsInFlight.WithLabelValues(s.manager, service).Dec()
		c.requestDuration.WithLabelValues(s.manager, service, operation, code).Observe(duration.Seconds())
		if service != "identity" {
			c.occmRequest(operation, code, duration)
		}
	})
}

func (c *collectors) occmRequest(operation, code string, duration time.Duration) {
	request := occmRequest(operation)
	c.occmRequestDuration.WithLabelValues(request).Observe(duration.Seconds())
	c.occmRequests.WithLabelValues(request).Inc()
	errors := c.occmRequestErrors.WithLabelValues(request)
	if failed(operation, code) {
		errors.Inc()
	}
}

// RequestRetried counts a request that is made again.
func (s *Series) RequestRetried(reason string) {
	s.owner.Record(func(c *collectors) { c.requestRetries.WithLabelValues(s.manager, reason).Inc() })
}

// LoggedIn counts an attempt to log in.
func (s *Series) LoggedIn(result string) {
	s.owner.Record(func(c *collectors) { c.logins.WithLabelValues(s.manager, result).Inc() })
}

// RateLimitWaited tells how long a request waited for the client's own rate limit.
func (s *Series) RateLimitWaited(duration time.Duration) {
	s.owner.Record(func(c *collectors) { c.rateLimitWait.WithLabelValues(s.manager).Observe(duration.Seconds()) })
}

// Lookup counts a lookup of an instance by where its answer came from: cache, list or direct.
func (s *Series) Lookup(source string) {
	s.owner.Record(func(c *collectors) { c.lookups.WithLabelValues(s.manager, source).Inc() })
}

// AbsenceRefused counts an absence that was not believed.
func (s *Series) AbsenceRefused() {
	s.owner.Record(func(c *collectors) { c.absenceRefused.WithLabelValues(s.manager).Inc() })
}

// AbsentInstances tells how many nodes have no instance. There are none before it is told.
func (s *Series) AbsentInstances(n int) {
	s.owner.Alone(func(c *collectors) { s.setAbsent(c, n) })
}

// setAbsent adds, since there may be several clouds of the name.
func (s *Series) setAbsent(c *collectors, n int) {
	c.absentInstances.WithLabelValues(s.manager).Add(float64(n - s.absent))
	s.absent = n
}

// Reconciled tells what came of a call that changes a load balancer: loadbalancer_ensure, loadbalancer_update or
// loadbalancer_delete.
func (s *Series) Reconciled(operation string, err error, duration time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.occmReconcileDuration.WithLabelValues(operation).Observe(duration.Seconds())
		c.occmReconciles.WithLabelValues(operation).Inc()
		if err != nil {
			c.occmReconcileErrors.WithLabelValues(operation).Inc()
		}
	})
}
