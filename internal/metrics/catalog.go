// Package metrics counts and times what the Managers of a process do, as Prometheus metrics.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// A Type is a Prometheus metric type.
type Type string

// The types that are used.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// A Metric describes a metric.
type Metric struct {
	Name   string
	Type   Type
	Labels []Label
	Help   string
	// Buckets are a histogram's upper bounds, in seconds.
	Buckets []float64
}

// A Label distinguishes the series of a metric.
type Label struct {
	Name string
	Help string
	// Values are all possible values. They are empty if the values are not known beforehand.
	Values []string
}

// ManagerLabel is the label of the series that belong to a Manager.
func ManagerLabel() Label {
	return Label{
		Name: "manager",
		Help: "The name of the Manager. Managers with the same name share series.",
	}
}

func (m Metric) labelNames() []string {
	var names []string
	for _, l := range m.Labels {
		names = append(names, l.Name)
	}
	return names
}

// desc describes a metric that is computed at each scrape.
func (m Metric) desc() *prometheus.Desc {
	return prometheus.NewDesc(m.Name, m.Help, m.labelNames(), nil)
}

// A Vec is the series of a metric: a vector of Prometheus.
type Vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// A Catalog makes the vectors of metrics, and lists the metrics.
type Catalog struct {
	table []Metric
	vecs  []Vec
	// owned are the vectors whose series belong to a Manager and end with it.
	owned []Vec
}

// Table lists all metrics.
func (c *Catalog) Table() []Metric { return c.table }

// Counter adds a metric of that type.
func (c *Catalog) Counter(name, help string, labels ...Label) *prometheus.CounterVec {
	m := Metric{Name: name, Type: Counter, Help: help, Labels: labels}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, m.labelNames())
	c.add(vec, m)
	return vec
}

// Gauge adds a metric of that type.
func (c *Catalog) Gauge(name, help string, labels ...Label) *prometheus.GaugeVec {
	m := Metric{Name: name, Type: Gauge, Help: help, Labels: labels}
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, m.labelNames())
	c.add(vec, m)
	return vec
}

// Histogram adds a metric of that type.
func (c *Catalog) Histogram(
	name, help string, buckets []float64, labels ...Label,
) *prometheus.HistogramVec {
	m := Metric{Name: name, Type: Histogram, Help: help, Labels: labels, Buckets: buckets}
	vec := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, m.labelNames())
	c.add(vec, m)
	return vec
}

// add adds the metrics of a vector.
func (c *Catalog) add(vec Vec, metrics ...Metric) {
	c.table = append(c.table, metrics...)
	c.vecs = append(c.vecs, vec)
	if metrics[0].Labels[0].Name == ManagerLabel().Name {
		c.owned = append(c.owned, vec)
	}
}

func (c *Catalog) catalog() *Catalog { return c }
