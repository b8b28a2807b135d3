package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// Set registers the metrics of one Manager's cloud. It is safe for concurrent use.
type Set struct {
	manager string
	group   *metrics.Group[*collectors]
}

// New registers the metrics, which all clouds with this registerer share. Series start with
// [Set.Begin]. A nil registerer registers nothing. The error names the Manager or the metric that
// the registerer refuses.
func New(registerer prometheus.Registerer, manager string) (*Set, error) {
	group, err := metrics.Share(registerer, manager, newCollectors)
	if err != nil {
		return nil, fmt.Errorf("OpenStack: %w", err)
	}
	return &Set{manager: manager, group: group}, nil
}

// Begin starts the series of one cloud for a term. Series with known labels start at 0.
func (s *Set) Begin() *Series {
	series := &Series{manager: s.manager}
	series.owner = s.group.Begin(s.manager, series.zero)
	return series
}

// Series measures one cloud. It is safe for concurrent use. Calls after End have no effect.
type Series struct {
	manager string
	owner   *metrics.Owner[*collectors]

	// absent is only changed by the owner.
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
	c.serviceToAddress.WithLabelValues(s.manager)
	for _, stage := range driftStages() {
		c.drift.WithLabelValues(s.manager, stage)
	}
	for _, operation := range reconcileOperations() {
		c.occmReconcileDuration.WithLabelValues(operation)
		c.occmReconciles.WithLabelValues(operation)
		c.occmReconcileErrors.WithLabelValues(operation)
	}
}

// End deletes the series, unless another cloud of the same Manager is open. It can be called
// several times. Metrics with OCCM's names stay, because they have no owner.
func (s *Series) End() { s.owner.End(func(c *collectors) { s.setAbsent(c, 0) }) }

// RequestStarted counts a request in flight.
func (s *Series) RequestStarted(service string) {
	s.owner.Record(func(c *collectors) {
		c.requestsInFlight.WithLabelValues(s.manager, service).Inc()
	})
}

// RequestEnded records the result of a started request.
func (s *Series) RequestEnded(service, operation, code string, duration time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.requestsInFlight.WithLabelValues(s.manager, service).Dec()
		c.requestDuration.WithLabelValues(s.manager, service, operation, code).
			Observe(duration.Seconds())
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

// RequestRetried counts a retry.
func (s *Series) RequestRetried(reason string) {
	s.owner.Record(func(c *collectors) {
		c.requestRetries.WithLabelValues(s.manager, reason).Inc()
	})
}

// LoggedIn counts a login.
func (s *Series) LoggedIn(result string) {
	s.owner.Record(func(c *collectors) { c.logins.WithLabelValues(s.manager, result).Inc() })
}

// RateLimitWaited records a wait for the client-side rate limit.
func (s *Series) RateLimitWaited(duration time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.rateLimitWait.WithLabelValues(s.manager).Observe(duration.Seconds())
	})
}

// Lookup counts a lookup of an instance by its source: cache, list or direct.
func (s *Series) Lookup(source string) {
	s.owner.Record(func(c *collectors) { c.lookups.WithLabelValues(s.manager, source).Inc() })
}

// AbsenceRefused counts a deletion that the mass deletion guard prevented.
func (s *Series) AbsenceRefused() {
	s.owner.Record(func(c *collectors) { c.absenceRefused.WithLabelValues(s.manager).Inc() })
}

// Quota sets the limit of a resource in a region's project, and the number that is used. A limit
// below 0 means no limit, and has no series.
func (s *Series) Quota(region, resource string, limit, used int) {
	s.owner.Record(func(c *collectors) {
		c.quotaUsed.WithLabelValues(s.manager, region, resource).Set(float64(used))
		if limit < 0 {
			c.quotaLimit.DeleteLabelValues(s.manager, region, resource)
			return
		}
		c.quotaLimit.WithLabelValues(s.manager, region, resource).Set(float64(limit))
	})
}

// AbsentInstances sets the number of nodes without an instance.
func (s *Series) AbsentInstances(n int) {
	s.owner.Alone(func(c *collectors) { s.setAbsent(c, n) })
}

// setAbsent adds the difference, because several clouds may share the series.
func (s *Series) setAbsent(c *collectors, n int) {
	c.absentInstances.WithLabelValues(s.manager).Add(float64(n - s.absent))
	s.absent = n
}

// Served records how long a new Service has waited for its load balancer.
func (s *Series) Served(after time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.serviceToAddress.WithLabelValues(s.manager).Observe(after.Seconds())
	})
}

// Drifted counts a load balancer that differs although nothing in Kubernetes changed.
func (s *Series) Drifted() { s.countDrift("found") }

// Repaired counts a load balancer that had drifted and no longer differs.
func (s *Series) Repaired() { s.countDrift("repaired") }

func (s *Series) countDrift(stage string) {
	s.owner.Record(func(c *collectors) { c.drift.WithLabelValues(s.manager, stage).Inc() })
}

// Reconciled records a call that changes a load balancer: loadbalancer_ensure, loadbalancer_update
// or loadbalancer_delete.
func (s *Series) Reconciled(operation string, err error, duration time.Duration) {
	s.owner.Record(func(c *collectors) {
		c.occmReconcileDuration.WithLabelValues(operation).Observe(duration.Seconds())
		c.occmReconciles.WithLabelValues(operation).Inc()
		if err != nil {
			c.occmReconcileErrors.WithLabelValues(operation).Inc()
		}
	})
}
