package openstack_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics/metricstest"
)

// metric is the sum of the series with the labels; see [metricstest.Value].
func metric(t *testing.T, from prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	sum, _ := metricstest.Value(t, from, name, labels...)
	return sum
}
