package sideeffects_test

import "github.com/fxccm/fxccm/test/sideeffects/snapshot"

// dependencies lists the import side effects of the packages that the library imports. A new entry
// reaches every host, so add one only on purpose.
var dependencies = snapshot.Snapshot{
	// Package expvar of the standard library, which github.com/prometheus/client_golang/prometheus
	// imports.
	snapshot.Handlers: {"GET /debug/vars"},
	snapshot.LegacyMetrics: {
		// Metrics of k8s.io/component-base/metrics about itself.
		"cardinality_enforcement_unexpected_categorizations_total",
		"disabled_metrics_total", "hidden_metrics_total", "registered_metrics_total",
		"kubernetes_feature_enabled",
		// k8s.io/apiserver/pkg/audit, which the authentication of the secure port imports.
		"apiserver_audit_error_total", "apiserver_audit_event_total", "apiserver_audit_level_total",
		"apiserver_audit_requests_rejected_total",
		// k8s.io/cloud-provider/controllers/node, in an init function.
		"node_controller_cloud_provider_taint_removal_delay_seconds",
		"node_controller_initial_node_sync_delay_seconds",
	},
}

// run lists what remains in the process after a Manager has led and stopped.
var run = snapshot.Snapshot{
	// The first controller of each kind registers these metrics. Later controllers share them.
	snapshot.LegacyMetrics: {
		"cloud_node_lifecycle_controller_cloud_provider_calls_total",
		"cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
		"route_controller_route_sync_total",
		"service_controller_loadbalancer_sync_total",
		"service_controller_nodesync_error_total",
		"service_controller_nodesync_latency_seconds",
		"service_controller_update_loadbalancer_host_latency_seconds",
	},
	// client-go keeps an idle connection to the API server for 90 seconds. The library and the
	// test's client have the same identity, so they share one connection.
	snapshot.Goroutines: {"golang.org/x/net/http2.(*ClientConn).readLoop"},
}
