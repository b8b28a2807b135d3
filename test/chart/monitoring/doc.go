// Package monitoring tests the alert rules and the dashboard of fxccm. It is a separate module,
// because it links Prometheus.
package monitoring
