package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/guard"
)

// collectors are the metrics of Managers.
type collectors struct {
	Catalog

	callDuration      *prometheus.HistogramVec
	callsInFlight     *prometheus.GaugeVec
	leading           *prometheus.GaugeVec
	states            *stateVec
	terms             *prometheus.CounterVec
	termsEnded        *prometheus.CounterVec
	termOpenDuration  *prometheus.HistogramVec
	termDrainDuration *prometheus.HistogramVec
	fenceRefused      *prometheus.CounterVec
	cloudTrouble      *prometheus.GaugeVec
	objects           *objectVec
}

// Table lists the metrics of Managers.
func Table() []Metric { return newCollectors().Table() }

func newCollectors() *collectors {
	c := &collectors{}
	c.addCalls()
	c.addTerms()
	c.fenceRefused = c.Counter("fxccm_fence_refused_total",
		"Calls and requests that the fence refused because their term was over.",
		ManagerLabel(), Label{
			Name: "door",
			Help: "The place: a client of the API server, a call of the cloud provider, or the transport that the " +
				"provider uses for its own requests.",
			Values: texts(doors()),
		})
	c.cloudTrouble = c.Gauge("fxccm_cloud_trouble",
		"1 while the cloud or the cloud controllers have a problem; Status says why and since when.",
		ManagerLabel(), Label{
			Name: "subject",
			Help: "The part of the cloud, as the provider names it, such as Keystone or quota; or the part of the controllers, such as a missing right.",
		})
	c.objects = c.addObjects()
	return c
}

func (c *collectors) addCalls() {
	of := []Label{ManagerLabel(), {
		Name: "interface",
		Help: "An interface of k8s.io/cloud-provider; Cloud for the methods of the cloud itself.",
		Values: []string{
			"Cloud", "Clusters", "Instances", "InstancesV2", "LoadBalancer", "PVLabeler", "Routes",
			"Zones",
		},
	}, {Name: "method", Help: "A method of the interface."}}
	// From a read of a cache to the creation of a load balancer.
	buckets := []float64{0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	c.callDuration = c.Histogram("fxccm_cloud_call_duration_seconds",
		"Duration of calls of the cloud provider. The wait of a call while its term drains is not counted.",
		buckets, append(of, Label{
			Name: "result",
			Help: "The result of the call. A canceled call failed because the term or its caller ended. A refused call came " +
				"after the end of the term and was not made; it takes 0 s.",
			Values: texts(guard.Results()),
		})...)
	c.callsInFlight = c.Gauge("fxccm_cloud_calls_in_flight",
		"Calls of the cloud provider that have not returned.", of...)
}

func (c *collectors) addTerms() {
	c.leading = c.Gauge("fxccm_leading",
		"Whether the Manager leads (1) or stands by (0).", ManagerLabel())
	c.states = c.addStates()
	c.terms = c.Counter("fxccm_terms_total", "Terms that have begun.", ManagerLabel())
	c.termsEnded = c.Counter("fxccm_terms_ended_total", "Terms that have ended.",
		ManagerLabel(), Label{
			Name: "reason",
			Help: "The reason: the Manager was stopped, leadership was lost, a part of the term failed, or a part of it " +
				"did not end within the drain timeout.",
			Values: texts(endReasons()),
		})
	buckets := []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	c.termOpenDuration = c.Histogram("fxccm_term_open_duration_seconds",
		"Time from the beginning of a term until its controllers run.", buckets, ManagerLabel())
	c.termDrainDuration = c.Histogram("fxccm_term_drain_duration_seconds",
		"Time from the reason for the end of a term until all of it has ended, or until the drain timeout.",
		buckets, ManagerLabel())
}

func texts[S ~string](list []S) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// ProcessMemory describes the memory of a provider's process. It is registered only while such a
// process exists, so it is not in [Table].
func ProcessMemory() Metric {
	return Metric{
		Name: "fxccm_provider_process_resident_memory_bytes", Type: Gauge,
		Labels: []Label{
			ManagerLabel(), {Name: "provider", Help: "The name of the provider."},
		},
		Help: "Resident memory of the process of a provider that runs in a process of its own.",
	}
}
