// Package monitoring tests the alert rules and the dashboard of fxccm: it is a module of its own,
// because it links Prometheus.
package monitoring
