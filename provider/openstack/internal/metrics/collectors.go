package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// collectors are the metrics of the provider. The metrics with OCCM's names belong to no Manager,
// and stay.
type collectors struct {
	metrics.Catalog

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
}

func newCollectors() *collectors {
	c := &collectors{}
	c.addRequests()
	c.addObjects()
	c.addOCCM()
	return c
}
