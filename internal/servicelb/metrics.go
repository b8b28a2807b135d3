package servicelb

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// counts are the metrics of upstream's controller.
type counts struct {
	updates, failedUpdates  prometheus.Counter
	updateSeconds           prometheus.Histogram
	secondsUntilNodesSynced prometheus.Histogram
}

// newCounts registers the metrics. Controllers with the same registry share them. If another
// component has registered the names, they are not registered.
func newCounts(registry prometheus.Registerer) *counts {
	const subsystem = "service_controller"
	counter := func(name, help string) prometheus.Counter {
		return metrics.Register(registry, prometheus.NewCounter(
			prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}))
	}
	histogram := func(name, help string) prometheus.Histogram {
		return metrics.Register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(1, 2, 15),
		}))
	}
	return &counts{
		updates: counter("loadbalancer_sync_total",
			"Updates of load balancers after changes of nodes."),
		failedUpdates: counter("nodesync_error_total",
			"Failed updates of load balancers after changes of nodes."),
		updateSeconds: histogram("update_loadbalancer_host_latency_seconds",
			"Duration of the updates of load balancers after changes of nodes."),
		secondsUntilNodesSynced: histogram("nodesync_latency_seconds",
			"Time from a change of nodes until a load balancer has been updated."),
	}
}
