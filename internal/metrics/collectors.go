package metrics

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// collectors are the metrics of all Managers that share a registerer. They are registered as one collector, so that the
// registerer has all of them or none, and hands out those that are there already, with what is known of who uses them.
type collectors struct {
	callDuration      *prometheus.HistogramVec
	callsInFlight     *prometheus.GaugeVec
	leading           *prometheus.GaugeVec
	terms             *prometheus.CounterVec
	termsEnded        *prometheus.CounterVec
	termOpenDuration  *prometheus.HistogramVec
	termDrainDuration *prometheus.HistogramVec
	fenceRefused      *prometheus.CounterVec

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
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return c, nil
}

func newCollectors() *collectors {
	return &collectors{
		callDuration:      histogram(callDuration()),
		callsInFlight:     gauge(callsInFlight()),
		leading:           gauge(leading()),
		terms:             counter(terms()),
		termsEnded:        counter(termsEnded()),
		termOpenDuration:  histogram(termOpenDuration()),
		termDrainDuration: histogram(termDrainDuration()),
		fenceRefused:      counter(fenceRefused()),
		names:             map[string]*name{},
	}
}

type vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

func (c *collectors) vecs() []vec {
	return []vec{
		c.callDuration, c.callsInFlight,
		c.leading, c.terms, c.termsEnded, c.termOpenDuration, c.termDrainDuration,
		c.fenceRefused,
	}
}

// Describe implements prometheus.Collector.
func (c *collectors) Describe(descs chan<- *prometheus.Desc) {
	for _, v := range c.vecs() {
		v.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (c *collectors) Collect(metrics chan<- prometheus.Metric) {
	for _, v := range c.vecs() {
		v.Collect(metrics)
	}
}

// delete is called with the lock held.
func (c *collectors) delete(manager string) {
	for _, v := range c.vecs() {
		v.DeletePartialMatch(prometheus.Labels{"manager": manager})
	}
}

func histogram(m Metric) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, m.labelNames())
}

func gauge(m Metric) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.labelNames())
}

func counter(m Metric) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.labelNames())
}
