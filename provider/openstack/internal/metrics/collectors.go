package metrics

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// collectors are the metrics of all clouds that share a registerer. They are registered as one collector, so that the
// registerer has all of them or none, and hands out those that are there already, with what is known of who uses them.
type collectors struct {
	requestDuration  *prometheus.HistogramVec
	requestsInFlight *prometheus.GaugeVec
	requestRetries   *prometheus.CounterVec
	logins           *prometheus.CounterVec
	rateLimitWait    *prometheus.HistogramVec
	lookups          *prometheus.CounterVec
	absentInstances  *prometheus.GaugeVec
	absenceRefused   *prometheus.CounterVec

	occmRequestDuration   *prometheus.HistogramVec
	occmRequests          *prometheus.CounterVec
	occmRequestErrors     *prometheus.CounterVec
	occmReconcileDuration *prometheus.HistogramVec
	occmReconciles        *prometheus.CounterVec
	occmReconcileErrors   *prometheus.CounterVec

	// mu is held for reading while a series changes, so that none is made of a name that has been deleted.
	mu    sync.RWMutex
	names map[string]*name
}

// name is a name of Managers that run. When the last of them ends, its series are deleted.
type name struct {
	users   int
	deleted bool
}

// shared returns the collectors of a registerer, which has them afterwards.
func shared(registerer prometheus.Registerer) (*collectors, error) {
	c := newCollectors()
	if registerer == nil {
		return c, nil
	}
	err := registerer.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*collectors); ok {
			return existing, nil
		}
	}
	if err != nil {
		// Prometheus names the metric at fault.
		return nil, fmt.Errorf("register metrics of OpenStack: %w", err)
	}
	return c, nil
}

func newCollectors() *collectors {
	return &collectors{
		requestDuration:  histogram(requestDuration()),
		requestsInFlight: gauge(requestsInFlight()),
		requestRetries:   counter(requestRetries()),
		logins:           counter(logins()),
		rateLimitWait:    histogram(rateLimitWait()),
		lookups:          counter(lookups()),
		absentInstances:  gauge(absentInstances()),
		absenceRefused:   counter(absenceRefused()),

		occmRequestDuration:   histogram(occmRequestDuration()),
		occmRequests:          counter(occmRequests()),
		occmRequestErrors:     counter(occmRequestErrors()),
		occmReconcileDuration: histogram(occmReconcileDuration()),
		occmReconciles:        counter(occmReconciles()),
		occmReconcileErrors:   counter(occmReconcileErrors()),

		names: map[string]*name{},
	}
}

type vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// named are the metrics whose series belong to a Manager.
func (c *collectors) named() []vec {
	return []vec{
		c.requestDuration, c.requestsInFlight, c.requestRetries, c.logins, c.rateLimitWait,
		c.lookups, c.absentInstances, c.absenceRefused,
	}
}

// common are the metrics with OCCM's names, whose series belong to no Manager: they stay.
func (c *collectors) common() []vec {
	return []vec{
		c.occmRequestDuration, c.occmRequests, c.occmRequestErrors,
		c.occmReconcileDuration, c.occmReconciles, c.occmReconcileErrors,
	}
}

// Describe implements prometheus.Collector.
func (c *collectors) Describe(descs chan<- *prometheus.Desc) {
	for _, v := range append(c.named(), c.common()...) {
		v.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (c *collectors) Collect(metrics chan<- prometheus.Metric) {
	for _, v := range append(c.named(), c.common()...) {
		v.Collect(metrics)
	}
}

// delete is called with the lock held.
func (c *collectors) delete(manager string) {
	for _, v := range c.named() {
		v.DeletePartialMatch(prometheus.Labels{"manager": manager})
	}
}

func histogram(m metrics.Metric) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, labelNames(m))
}

func gauge(m metrics.Metric) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, labelNames(m))
}

func counter(m metrics.Metric) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, labelNames(m))
}
