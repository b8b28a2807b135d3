// Package metrics counts and times what the Managers of a process do, as Prometheus metrics.
package metrics

import "github.com/fxccm/fxccm/internal/guard"

// A Type is a Prometheus metric type.
type Type string

// The types that are used.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// A Metric is what is to be known of a metric before it has a value.
type Metric struct {
	Name   string
	Type   Type
	Labels []Label
	Help   string
	// Buckets are a histogram's upper bounds, in seconds.
	Buckets []float64
}

// A Label tells the series of a metric apart.
type Label struct {
	Name string
	Help string
	// Values are all that occur; empty if they are not known beforehand.
	Values []string
}

// Table lists all metrics. The collectors are made from it.
func Table() []Metric {
	return []Metric{
		callDuration(), callsInFlight(),
		leading(), managerState(), terms(), termsEnded(), termOpenDuration(), termDrainDuration(),
		fenceRefused(), cloudTrouble(),
		loadBalancers(), oldestLoadBalancer(), provisioningStatuses(), waitingNodes(), oldestNode(),
	}
}

func callDuration() Metric {
	return Metric{
		Name: "fxccm_cloud_call_duration_seconds",
		Type: Histogram,
		Labels: []Label{managerLabel(), interfaceLabel(), methodLabel(), {
			Name: "result",
			Help: "The result of the call. A cancelled call failed because the term or its caller ended. A refused call came " +
				"after the end of the term and was not made; it takes 0 s.",
			Values: texts(guard.Results()),
		}},
		Help: "Duration of calls of the cloud provider. The wait of a call while its term drains is not counted.",
		// From a read of a cache to the creation of a load balancer.
		Buckets: []float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	}
}

func callsInFlight() Metric {
	return Metric{
		Name:   "fxccm_cloud_calls_in_flight",
		Type:   Gauge,
		Labels: []Label{managerLabel(), interfaceLabel(), methodLabel()},
		Help:   "Calls of the cloud provider that have not returned.",
	}
}

func leading() Metric {
	return Metric{
		Name:   "fxccm_leading",
		Type:   Gauge,
		Labels: []Label{managerLabel()},
		Help:   "Whether the Manager leads (1) or stands by (0).",
	}
}

func terms() Metric {
	return Metric{
		Name:   "fxccm_terms_total",
		Type:   Counter,
		Labels: []Label{managerLabel()},
		Help:   "Terms that have begun.",
	}
}

func termsEnded() Metric {
	return Metric{
		Name: "fxccm_terms_ended_total",
		Type: Counter,
		Labels: []Label{managerLabel(), {
			Name: "reason",
			Help: "The reason: the Manager was stopped, leadership was lost, a part of the term failed, or a part of it " +
				"did not end within the drain timeout.",
			Values: texts(endReasons()),
		}},
		Help: "Terms that have ended.",
	}
}

func termOpenDuration() Metric {
	return Metric{
		Name:    "fxccm_term_open_duration_seconds",
		Type:    Histogram,
		Labels:  []Label{managerLabel()},
		Help:    "Time from the beginning of a term until its controllers run.",
		Buckets: termBuckets(),
	}
}

func termDrainDuration() Metric {
	return Metric{
		Name:    "fxccm_term_drain_duration_seconds",
		Type:    Histogram,
		Labels:  []Label{managerLabel()},
		Help:    "Time from the reason for the end of a term until all of it has ended, or until the drain timeout.",
		Buckets: termBuckets(),
	}
}

func termBuckets() []float64 { return []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300} }

func fenceRefused() Metric {
	return Metric{
		Name: "fxccm_fence_refused_total",
		Type: Counter,
		Labels: []Label{managerLabel(), {
			Name: "door",
			Help: "The place: a client of the API server, a call of the cloud provider, or the transport that the " +
				"provider uses for its own requests.",
			Values: texts(doors()),
		}},
		Help: "Calls and requests that the fence refused because their term was over.",
	}
}

func cloudTrouble() Metric {
	return Metric{
		Name: "fxccm_cloud_trouble",
		Type: Gauge,
		Labels: []Label{managerLabel(), {
			Name: "subject",
			Help: "The part of the cloud that is in trouble, as the provider names it, such as identity or quota.",
		}},
		Help: "1 while the cloud provider reports a problem of the cloud; Status says why and since when.",
	}
}

func managerLabel() Label {
	return Label{
		Name: "manager",
		Help: "The name of the Manager. Managers of one name share their series.",
	}
}

func interfaceLabel() Label {
	return Label{
		Name: "interface",
		Help: "An interface of k8s.io/cloud-provider; Cloud for the methods of the cloud itself.",
		Values: []string{
			"Cloud", "Clusters", "Instances", "InstancesV2", "LoadBalancer", "PVLabeler", "Routes",
			"Zones",
		},
	}
}

func methodLabel() Label { return Label{Name: "method", Help: "A method of the interface."} }

func (m Metric) labelNames() []string {
	var names []string
	for _, l := range m.Labels {
		names = append(names, l.Name)
	}
	return names
}

func texts[S ~string](list []S) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// ProcessMemory describes the memory of a provider's process. It is registered while there is such
// a process, so it is not in [Table].
func ProcessMemory() Metric {
	return Metric{
		Name: "fxccm_provider_process_resident_memory_bytes", Type: Gauge,
		Labels: []Label{
			managerLabel(), {Name: "provider", Help: "The name of the provider."},
		},
		Help: "Resident memory of the process of a provider that runs in a process of its own.",
	}
}
