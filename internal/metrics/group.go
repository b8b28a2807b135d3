package metrics

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// A Vec is the series of one metric: a vector of Prometheus.
type Vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// Vecs are the metrics of a [Group].
type Vecs interface {
	// Owned are those whose series belong to a Manager, by the label "manager", and go with it.
	// Common are all others.
	Owned() []Vec
	Common() []Vec
}

// A Group is metrics that are registered together, and shared by all Managers that are given the
// same registerer. It is one collector, so that the registerer has all of them or none, and returns
// the registered group, with its users. A nil Group records nothing.
type Group[V Vecs] struct {
	vecs V

	// mu is held for reading while a series changes, so that none is made of a name that has been
	// deleted.
	mu    sync.RWMutex
	names map[string]*name
}

// name is a Manager's, or that of several of the same name. When the last of them ends, its series
// are deleted.
type name struct {
	users   int
	deleted bool
}

// Share returns the group of a registerer, which has it afterwards. Groups of one type are the same
// group. Without a registerer the group is nil, because no reader could get its series.
func Share[V Vecs](registerer prometheus.Registerer, vecs func() V) (*Group[V], error) {
	if registerer == nil {
		return nil, nil
	}
	g := &Group[V]{vecs: vecs(), names: map[string]*name{}}
	err := registerer.Register(g)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*Group[V]); ok {
			return existing, nil
		}
	}
	if err != nil {
		// Prometheus names the metric at fault.
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return g, nil
}

// CheckManager tells whether a Manager's name can be a label.
func CheckManager(manager string) error {
	if !utf8.ValidString(manager) {
		return fmt.Errorf("name of the manager for metrics: %q is not valid UTF-8", manager)
	}
	return nil
}

func (g *Group[V]) each(do func(Vec)) {
	for _, v := range g.vecs.Owned() {
		do(v)
	}
	for _, v := range g.vecs.Common() {
		do(v)
	}
}

// Describe implements prometheus.Collector.
func (g *Group[V]) Describe(descs chan<- *prometheus.Desc) {
	g.each(func(v Vec) { v.Describe(descs) })
}

// Collect implements prometheus.Collector.
func (g *Group[V]) Collect(metrics chan<- prometheus.Metric) {
	g.each(func(v Vec) { v.Collect(metrics) })
}

// Begin begins the use of a group by a Manager. begin makes the series that are to be there at
// once.
func (g *Group[V]) Begin(manager string, begin func(V)) *Owner[V] {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.names[manager]
	if n == nil {
		n = &name{}
		g.names[manager] = n
	}
	n.users++
	begin(g.vecs)
	return &Owner[V]{group: g, manager: manager, name: n}
}

// An Owner is one use of a group. It is safe for concurrent use. A nil Owner records nothing.
type Owner[V Vecs] struct {
	group   *Group[V]
	manager string
	name    *name
	// ended is guarded by the group's lock.
	ended bool
}

// Record changes series that have not been deleted. An owner that has ended may still record the
// end of a call, as long as another owner of the name keeps the series, because its start was
// counted. Several may record at once.
func (o *Owner[V]) Record(change func(V)) {
	if o == nil {
		return
	}
	o.group.mu.RLock()
	defer o.group.mu.RUnlock()
	if !o.name.deleted {
		change(o.group.vecs)
	}
}

// Alone changes series of an owner that has not ended, while no other owner does.
func (o *Owner[V]) Alone(change func(V)) {
	if o == nil {
		return
	}
	o.group.mu.Lock()
	defer o.group.mu.Unlock()
	if !o.ended {
		change(o.group.vecs)
	}
}

// End ends the use: end takes back what holds only while it lasts. The series are deleted, unless
// another owner of the name is left. Another call does nothing.
func (o *Owner[V]) End(end func(V)) {
	if o == nil {
		return
	}
	g := o.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.ended {
		return
	}
	end(g.vecs)
	o.ended = true
	if o.name.users--; o.name.users > 0 {
		return
	}
	o.name.deleted = true
	delete(g.names, o.manager)
	for _, v := range g.vecs.Owned() {
		v.DeletePartialMatch(prometheus.Labels{"manager": o.manager})
	}
}

// Histogram makes the vector of a metric of that type.
func (m Metric) Histogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.Name, Help: m.Help,
		Buckets: m.Buckets,
	}, m.labelNames())
}

// Gauge makes the vector of a metric of that type.
func (m Metric) Gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.labelNames())
}

// Counter makes the vector of a metric of that type.
func (m Metric) Counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help},
		m.labelNames())
}
