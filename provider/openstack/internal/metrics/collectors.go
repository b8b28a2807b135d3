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

	occmRequestDuration   *prometheus.HistogramVec
	occmRequests          *prometheus.CounterVec
	occmRequestErrors     *prometheus.CounterVec
	occmReconcileDuration *prometheus.HistogramVec
	occmReconciles        *prometheus.CounterVec
	occmReconcileErrors   *prometheus.CounterVec
}

func newCollectors() *collectors {
	return &collectors{
		requestDuration:  requestDuration().Histogram(),
		requestsInFlight: requestsInFlight().Gauge(),
		requestRetries:   requestRetries().Counter(),
		logins:           logins().Counter(),
		rateLimitWait:    rateLimitWait().Histogram(),
		lookups:          lookups().Counter(),
		absentInstances:  absentInstances().Gauge(),
		absenceRefused:   absenceRefused().Counter(),
		serviceToAddress: serviceToAddress().Histogram(),

		occmRequestDuration:   occmRequestDuration().Histogram(),
		occmRequests:          occmRequests().Counter(),
		occmRequestErrors:     occmRequestErrors().Counter(),
		occmReconcileDuration: occmReconcileDuration().Histogram(),
		occmReconciles:        occmReconciles().Counter(),
		occmReconcileErrors:   occmReconcileErrors().Counter(),
	}
}

// Owned implements [metrics.Vecs].
func (c *collectors) Owned() []metrics.Vec {
	return []metrics.Vec{
		c.requestDuration, c.requestsInFlight, c.requestRetries, c.logins, c.rateLimitWait,
		c.lookups, c.absentInstances, c.absenceRefused, c.serviceToAddress,
	}
}

// Common implements [metrics.Vecs]: the metrics with OCCM's names, which no Manager owns and which
// stay.
func (c *collectors) Common() []metrics.Vec {
	return []metrics.Vec{
		c.occmRequestDuration, c.occmRequests, c.occmRequestErrors,
		c.occmReconcileDuration, c.occmReconciles, c.occmReconcileErrors,
	}
}
