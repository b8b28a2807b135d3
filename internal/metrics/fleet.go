package metrics

import "github.com/prometheus/client_golang/prometheus"

// FleetState is the state of a fleet in one replica at a scrape.
type FleetState struct {
	// Clusters counts the clusters by their state in this replica.
	Clusters map[string]int
	// Led counts the clusters whose Lease this replica holds, and Unled those without a holder.
	Led, Unled int
	// Replicas and Problems count the live replicas and the problems of the fleet itself.
	Replicas, Problems int
}

// FleetTable lists the metrics of a fleet, given the states of a cluster.
func FleetTable(states []string) []Metric {
	fleet := Label{Name: "fleet", Help: "The fleet's name."}
	return []Metric{
		{
			Name: "fxccm_fleet_clusters", Type: Gauge,
			Labels: []Label{
				fleet,
				{Name: "state", Help: "The state of the cluster in this replica.", Values: states},
			},
			Help: "Clusters of the fleet, by their state in this replica.",
		},
		{
			Name: "fxccm_fleet_clusters_led", Type: Gauge, Labels: []Label{fleet},
			Help: "Clusters whose Lease this replica holds.",
		},
		{
			Name: "fxccm_fleet_clusters_unled", Type: Gauge, Labels: []Label{fleet},
			Help: "Clusters whose Lease no replica holds, as far as this replica has seen.",
		},
		{
			Name: "fxccm_fleet_replicas", Type: Gauge, Labels: []Label{fleet},
			Help: "Replicas of the fleet that announce themselves, as far as this replica has seen.",
		},
		{
			Name: "fxccm_fleet_problems", Type: Gauge, Labels: []Label{fleet},
			Help: "Problems of the fleet itself, such as a source that fails; its Status has them.",
		},
	}
}

// Fleet collects the metrics of a fleet. state is called at each scrape.
func Fleet(name string, states []string, state func() FleetState) prometheus.Collector {
	f := &fleet{states: states, state: state}
	for _, m := range FleetTable(states) {
		f.descs = append(f.descs, prometheus.NewDesc(m.Name, m.Help, m.labelNames()[1:],
			prometheus.Labels{"fleet": name}))
	}
	return f
}

type fleet struct {
	states []string
	state  func() FleetState
	// descs are those of FleetTable. They contain the fleet's name, so that several fleets can
	// share a registerer.
	descs []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (f *fleet) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range f.descs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fleet) Collect(metrics chan<- prometheus.Metric) {
	now := f.state()
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		// Only a label that is not valid UTF-8 would be an error, and all states are valid.
		if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, float64(value),
			labels...); err == nil {
			metrics <- m
		}
	}
	for _, state := range f.states {
		gauge(f.descs[0], now.Clusters[state], state)
	}
	for i, value := range []int{now.Led, now.Unled, now.Replicas, now.Problems} {
		gauge(f.descs[i+1], value)
	}
}
