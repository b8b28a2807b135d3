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
	},
}

// run lists what remains in the process after a Manager has led and stopped.
var run = snapshot.Snapshot{
	// The first route controller registers it. Later ones share it.
	snapshot.LegacyMetrics: {"route_controller_route_sync_total"},
	// client-go keeps an idle connection to the API server for 90 seconds. The library and the
	// test's client have the same identity, so they share one connection.
	snapshot.Goroutines: {"golang.org/x/net/http2.(*ClientConn).readLoop"},
}
