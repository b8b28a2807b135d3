package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

type collectors struct {
	requestDuration  *prometheus.HistogramVec
	requestsInFlight *prometheus.GaugeVec
	requestRetries   *prometheus.CounterVec
	logins           *prometheus.CounterVec
	rateLimitWait    *prometheus.HistogramVec
	lookups          *prometheus.CounterVec
	absentInstances  *prometheus.GaugeVec
	absenceRefused   *prometheus.CounterVec
	serviceToAddress *prometheus.HistogramVec
	drift            *prometheus.CounterVec
	quotaLimit       *prometheus.GaugeVec
	quotaUsed        *prometheus.GaugeVec

	occmRequestDuration   *prometheus.HistogramVec
	occmRequests          *prometheus.CounterVec
	occmRequestErrors     *prometheus.CounterVec
	occmReconcileDuration *prometheus.HistogramVec
	occmReconciles        *prometheus.CounterVec
	occmReconcileErrors   *prometheus.CounterVec

	// table lists all of them. owned are those of a Manager, and common those with OCCM's names,
	// which no Manager owns and which stay.
	table         []metrics.Metric
	owned, common []metrics.Vec
}

func newCollectors() *collectors {
	c := &collectors{}
	c.addRequests()
	c.addObjects()
	c.addOCCM()
	return c
}

// Owned implements [metrics.Vecs].
func (c *collectors) Owned() []metrics.Vec { return c.owned }

// Common implements [metrics.Vecs].
func (c *collectors) Common() []metrics.Vec { return c.common }

func (c *collectors) add(m metrics.Metric, vec metrics.Vec) {
	c.table = append(c.table, m)
	if m.Labels[0].Name == managerLabel().Name {
		c.owned = append(c.owned, vec)
	} else {
		c.common = append(c.common, vec)
	}
}

func (c *collectors) counter(
	name, help string, labels ...metrics.Label,
) *prometheus.CounterVec {
	m := metrics.Metric{Name: name, Type: metrics.Counter, Help: help, Labels: labels}
	vec := m.Counter()
	c.add(m, vec)
	return vec
}

func (c *collectors) gauge(name, help string, labels ...metrics.Label) *prometheus.GaugeVec {
	m := metrics.Metric{Name: name, Type: metrics.Gauge, Help: help, Labels: labels}
	vec := m.Gauge()
	c.add(m, vec)
	return vec
}

func (c *collectors) histogram(
	name, help string, buckets []float64, labels ...metrics.Label,
) *prometheus.HistogramVec {
	m := metrics.Metric{
		Name: name, Type: metrics.Histogram, Help: help, Labels: labels, Buckets: buckets,
	}
	vec := m.Histogram()
	c.add(m, vec)
	return vec
}
