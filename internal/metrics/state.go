package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// ManagerStates are all states of a Manager that runs.
func ManagerStates() []string { return []string{"standby", "leading", "draining", "degraded"} }

// stateVec reads the states of the Managers at each scrape. It is a [Vec].
type stateVec struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	sources map[*Series]func() string
}

func (c *Catalog) addStates() *stateVec {
	m := Metric{
		Name: "fxccm_manager_state", Type: Gauge,
		Labels: []Label{ManagerLabel(), stateLabel(ManagerStates())},
		Help:   "1 for the state of the Manager, and 0 for the others.",
	}
	vec := &stateVec{desc: m.desc(), sources: map[*Series]func() string{}}
	c.add(vec, m)
	return vec
}

func (v *stateVec) add(s *Series, state func() string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sources[s] = state
}

func (v *stateVec) remove(s *Series) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.sources, s)
}

// Describe implements prometheus.Collector.
func (v *stateVec) Describe(descs chan<- *prometheus.Desc) { descs <- v.desc }

// Collect implements prometheus.Collector. Managers of one name add up.
func (v *stateVec) Collect(metrics chan<- prometheus.Metric) {
	type source struct {
		manager string
		state   func() string
	}
	// state takes the Manager's lock, and the Manager removes its source under that lock, so v.mu
	// must not be held.
	v.mu.Lock()
	var sources []source
	for s, state := range v.sources {
		sources = append(sources, source{s.manager, state})
	}
	v.mu.Unlock()
	values := map[[2]string]float64{}
	for _, s := range sources {
		for _, state := range ManagerStates() {
			values[[2]string{s.manager, state}] += 0
		}
		// A Manager that has just stopped has no other state.
		if key := [2]string{s.manager, s.state()}; slices.Contains(ManagerStates(), key[1]) {
			values[key]++
		}
	}
	for labels, value := range values {
		// Only a label that is not valid UTF-8 is an error. It must not fail the scrape.
		if metric, err := prometheus.NewConstMetric(v.desc, prometheus.GaugeValue, value,
			labels[:]...); err == nil {
			metrics <- metric
		}
	}
}

// DeletePartialMatch implements [Vec]. [Series.End] has removed the sources.
func (*stateVec) DeletePartialMatch(prometheus.Labels) int { return 0 }

// State registers the function that returns the state of the Manager at each scrape, until the
// series end.
func (s *Series) State(state func() string) {
	s.owner.Alone(func(c *collectors) { c.states.add(s, state) })
}
