package metrics

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// Vecs are the metrics of a [Group]: a type that embeds a [Catalog].
type Vecs interface{ catalog() *Catalog }

// A Group is metrics that are registered together, and shared by all Managers with the same
// registerer. It is one collector, so that the registerer has all metrics or none, and returns the
// registered group with its users. A nil Group records nothing.
type Group[V Vecs] struct {
	vecs V

	// mu is held for reading while a series changes, so that no series of a deleted name is
	// created.
	mu    sync.RWMutex
	names map[string]*name
}

// name is the name of one or several Managers. When the last of them ends, its series are deleted.
type name struct {
	users   int
	deleted bool
}

// Share returns the group of a registerer, and registers it if it is new. A registerer has one
// group of each type. Without a registerer the group is nil, because no reader could get its
// series. A name of a Manager that cannot be a label is an error.
func Share[V Vecs](
	registerer prometheus.Registerer, manager string, vecs func() V,
) (*Group[V], error) {
	if !utf8.ValidString(manager) {
		return nil, fmt.Errorf("name of the manager for metrics: %q is not valid UTF-8", manager)
	}
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
		// Prometheus names the conflicting metric.
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return g, nil
}

// Describe implements prometheus.Collector.
func (g *Group[V]) Describe(descs chan<- *prometheus.Desc) {
	for _, v := range g.vecs.catalog().vecs {
		v.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (g *Group[V]) Collect(metrics chan<- prometheus.Metric) {
	for _, v := range g.vecs.catalog().vecs {
		v.Collect(metrics)
	}
}

// Begin begins the use of a group by a Manager. begin creates the initial series.
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

// Record changes series that have not been deleted. After an owner has ended, it may still record
// the end of a call whose start was counted, if another owner of the name keeps the series. Record
// may run concurrently.
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

// Alone changes series of an owner that has not ended, and excludes all other changes.
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

// End ends the use. end resets the values that hold only during the use. The series are deleted,
// unless another owner of the name is left. Another call does nothing.
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
	for _, v := range g.vecs.catalog().owned {
		v.DeletePartialMatch(prometheus.Labels{"manager": o.manager})
	}
}
