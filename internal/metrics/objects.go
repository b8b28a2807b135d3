package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Objects are the states of objects that the provider of an open term reports.
type Objects struct {
	LoadBalancers []LoadBalancer
	// Nodes are the nodes that wait for their initialization, by the time of their registration.
	Nodes []time.Time
}

// LoadBalancer is the state of one load balancer.
type LoadBalancer struct {
	State, ProvisioningStatus string
	Since                     time.Time
	// Defect is the reason why a ready load balancer lacks something; "" for none.
	Defect string
}

// LoadBalancerStates are all states of load balancers, worst first.
func LoadBalancerStates() []string { return []string{"degraded", "refused", "waiting", "ready"} }

// objectSource reports the objects of one open term.
type objectSource struct {
	manager string
	now     func() time.Time
	report  func() Objects
}

// objectVec reads the objects of the open terms at each scrape, because their ages change all the
// time. It is a [Vec].
type objectVec struct {
	states, oldest, statuses, defects, nodes, oldestNode *prometheus.Desc

	mu      sync.Mutex
	sources map[*objectSource]bool
}

func (c *Catalog) addObjects() *objectVec {
	states := LoadBalancerStates()
	metrics := []Metric{
		{
			Name: "fxccm_load_balancers", Type: Gauge,
			Labels: []Label{ManagerLabel(), stateLabel(states)},
			Help:   "Services with a load balancer, by state, if the provider reports them. Only the leader has them.",
		},
		{
			Name: "fxccm_load_balancers_oldest_seconds", Type: Gauge,
			Labels: []Label{ManagerLabel(), stateLabel(states[:len(states)-1])},
			Help:   "The longest time for which a Service in this state has had no ready load balancer; 0 if no Service is in the state.",
		},
		{
			Name: "fxccm_load_balancers_provisioning", Type: Gauge,
			Labels: []Label{ManagerLabel(), {
				Name: "status",
				Help: "The cloud's word, such as ACTIVE or PENDING_UPDATE.",
			}},
			Help: "Load balancers of Services, by the cloud's provisioning status.",
		},
		{
			Name: "fxccm_load_balancers_defective", Type: Gauge,
			Labels: []Label{ManagerLabel(), {
				Name: "reason",
				Help: "The reason of the event, the condition and the status, such as LoadBalancerSourceRangesIgnored.",
			}},
			Help: "Services that are served but for a part of what they request, by the gravest reason.",
		},
		{
			Name: "fxccm_nodes_waiting", Type: Gauge, Labels: []Label{ManagerLabel()},
			Help: "Nodes that wait for their initialization, if the provider reports them. Only the leader has them.",
		},
		{
			Name: "fxccm_nodes_waiting_oldest_seconds", Type: Gauge,
			Labels: []Label{ManagerLabel()},
			Help:   "Age of the oldest node that waits for its initialization; 0 without one.",
		},
	}
	vec := &objectVec{sources: map[*objectSource]bool{}}
	for i, desc := range []**prometheus.Desc{
		&vec.states, &vec.oldest, &vec.statuses, &vec.defects, &vec.nodes, &vec.oldestNode,
	} {
		*desc = metrics[i].desc()
	}
	c.add(vec, metrics...)
	return vec
}

func (v *objectVec) add(s *objectSource) (remove func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sources[s] = true
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.sources, s)
	}
}

// Describe implements prometheus.Collector.
func (v *objectVec) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		v.states, v.oldest, v.statuses, v.defects, v.nodes, v.oldestNode,
	} {
		descs <- desc
	}
}

// DeletePartialMatch implements [Vec] for the label "manager".
func (v *objectVec) DeletePartialMatch(labels prometheus.Labels) (deleted int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.sources {
		if s.manager == labels["manager"] {
			delete(v.sources, s)
			deleted++
		}
	}
	return deleted
}

// series identifies a series below the label "manager".
type series struct {
	desc           *prometheus.Desc
	manager, label string
}

// Collect implements prometheus.Collector. Managers of one name add up.
func (v *objectVec) Collect(metrics chan<- prometheus.Metric) {
	v.mu.Lock()
	sources := make([]*objectSource, 0, len(v.sources))
	for s := range v.sources {
		sources = append(sources, s)
	}
	v.mu.Unlock()
	values := map[series]float64{}
	for _, s := range sources {
		v.count(s, values)
	}
	for key, value := range values {
		labels := []string{key.manager}
		if key.desc != v.nodes && key.desc != v.oldestNode {
			labels = append(labels, key.label)
		}
		// Only a label that is not valid UTF-8 is an error. It must not fail the scrape.
		if metric, err := prometheus.NewConstMetric(key.desc, prometheus.GaugeValue, value,
			labels...); err == nil {
			metrics <- metric
		}
	}
}

// count adds the objects of a source to the values.
func (v *objectVec) count(s *objectSource, values map[series]float64) {
	objects, now := s.report(), s.now()
	grow := func(key series, since time.Time) {
		values[key] = max(values[key], now.Sub(since).Seconds())
	}
	for _, state := range LoadBalancerStates() {
		values[series{v.states, s.manager, state}] += 0
		if state != "ready" {
			values[series{v.oldest, s.manager, state}] += 0
		}
	}
	for _, lb := range objects.LoadBalancers {
		values[series{v.states, s.manager, lb.State}]++
		if lb.State != "ready" {
			grow(series{v.oldest, s.manager, lb.State}, lb.Since)
		}
		if lb.ProvisioningStatus != "" {
			values[series{v.statuses, s.manager, lb.ProvisioningStatus}]++
		}
		if lb.Defect != "" {
			values[series{v.defects, s.manager, lb.Defect}]++
		}
	}
	values[series{v.nodes, s.manager, ""}] += float64(len(objects.Nodes))
	values[series{v.oldestNode, s.manager, ""}] += 0
	for _, since := range objects.Nodes {
		grow(series{v.oldestNode, s.manager, ""}, since)
	}
}

// Objects reports the objects of a term at each scrape, until the returned function is called.
func (s *Series) Objects(now func() time.Time, report func() Objects) (stop func()) {
	stop = func() {}
	s.owner.Record(func(c *collectors) {
		stop = c.objects.add(&objectSource{s.manager, now, report})
	})
	return stop
}

func stateLabel(values []string) Label {
	return Label{
		Name:   "state",
		Help:   "The state, as in the status of the Manager.",
		Values: values,
	}
}
