package nodes

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/metrics"
)

// delays are the metrics of upstream's cloud-node-controller.
type delays struct{ untilUntainted, untilSynced prometheus.Histogram }

func newDelays(registry prometheus.Registerer) delays {
	histogram := func(name, help string) prometheus.Histogram {
		return metrics.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: "node_controller", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(1, 4, 6),
		}))
	}
	return delays{
		untilUntainted: histogram("cloud_provider_taint_removal_delay_seconds",
			"Time from the creation of a node until its cloud-provider taint was removed."),
		untilSynced: histogram("initial_node_sync_delay_seconds",
			"Time from the creation of a node until it was initialized."),
	}
}

func (d delays) observe(node *v1.Node) {
	age := time.Since(node.CreationTimestamp.Time).Seconds()
	d.untilUntainted.Observe(age)
	d.untilSynced.Observe(age)
}

// passes are the metrics of upstream's cloud-node-lifecycle-controller.
type passes struct {
	seconds prometheus.Histogram
	calls   *prometheus.CounterVec
}

func newPasses(registry prometheus.Registerer) passes {
	const subsystem = "cloud_node_lifecycle_controller"
	return passes{
		seconds: metrics.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "monitor_nodes_duration_seconds",
			Help:    "Duration of a check of all nodes.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		})),
		calls: metrics.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "cloud_provider_calls_total",
			Help: "Calls to the cloud provider by operation and result.",
		}, []string{"operation", "result"})),
	}
}
