package sideeffects_test

import "github.com/fxccm/fxccm/test/sideeffects/snapshot"

// dependencies is what the packages do that the library imports, when they are imported. A longer
// list means that a host gets more than before, and has to be wanted.
var dependencies = snapshot.Snapshot{
	// Package expvar of the standard library, which github.com/prometheus/client_golang/prometheus
	// imports.
	snapshot.Handlers: {"GET /debug/vars"},
	snapshot.LegacyMetrics: {
		// k8s.io/component-base/metrics, about itself.
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

// run is what is left in the process after a Manager has led and been stopped.
var run = snapshot.Snapshot{
	// Upstream's controllers register these when the first of their kind is made or run; all that
	// come after share them.
	snapshot.LegacyMetrics: {
		"cloud_node_lifecycle_controller_cloud_provider_calls_total",
		"cloud_node_lifecycle_controller_monitor_nodes_duration_seconds",
		"route_controller_route_sync_total",
		"service_controller_loadbalancer_sync_total",
		"service_controller_nodesync_error_total",
		"service_controller_nodesync_latency_seconds",
		"service_controller_update_loadbalancer_host_latency_seconds",
	},
	// client-go keeps the connection to the API server for a minute and a half, for whoever comes
	// next. The library and the test's own client have the same identity, so there is one.
	snapshot.Goroutines: {"golang.org/x/net/http2.(*ClientConn).readLoop"},
}
