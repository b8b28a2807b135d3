// Package metricstest reads Prometheus metrics in tests.
package metricstest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/fxccm/fxccm/internal/metrics"
)

// Gather returns all metrics, by name.
func Gather(t testing.TB, g prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]*dto.MetricFamily{}
	for _, f := range list {
		families[f.GetName()] = f
	}
	return families
}

// Value returns the sum of the series with these labels, and whether such series exist. labels
// alternates names and values. For a histogram the sum is the number of observations.
func Value(
	t testing.TB, g prometheus.Gatherer, metric string, labels ...string,
) (sum float64, exists bool) {
	t.Helper()
	for _, series := range Gather(t, g)[metric].GetMetric() {
		if has(series, labels) {
			exists = true
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() +
				float64(series.GetHistogram().GetSampleCount())
		}
	}
	return sum, exists
}

func has(series *dto.Metric, labels []string) bool {
	found := 0
	for i := 0; i < len(labels); i += 2 {
		for _, pair := range series.GetLabel() {
			if pair.GetName() == labels[i] && pair.GetValue() == labels[i+1] {
				found += 2
			}
		}
	}
	return found == len(labels)
}

// Want fails the test unless [Value] is want.
func Want(t testing.TB, g prometheus.Gatherer, want float64, metric string, labels ...string) {
	t.Helper()
	if got, ok := Value(t, g, metric, labels...); !ok || got != want {
		t.Errorf("%s%v = %v (exists: %v), want %v", metric, labels, got, ok, want)
	}
}

// WantTable fails the test unless the metrics are those of the table, and follow the conventions of
// Prometheus. If a label's values are known beforehand, all of them must occur.
func WantTable(t *testing.T, g prometheus.Gatherer, table []metrics.Metric) {
	t.Helper()
	families := Gather(t, g)
	for _, m := range table {
		family := families[m.Name]
		delete(families, m.Name)
		if family == nil {
			t.Errorf("%s is in the table, but is not gathered", m.Name)
			continue
		}
		if got := strings.ToLower(family.GetType().String()); got != string(m.Type) {
			t.Errorf("%s is a %s, the table says %s", m.Name, got, m.Type)
		}
		if family.GetHelp() != m.Help {
			t.Errorf("%s: gathered help %q, the table says %q", m.Name, family.GetHelp(), m.Help)
		}
		wantLabels(t, family, m)
		var bounds []float64
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			bounds = append(bounds, bucket.GetUpperBound())
		}
		if !slices.Equal(bounds, m.Buckets) {
			t.Errorf("%s: gathered buckets %v, the table says %v", m.Name, bounds, m.Buckets)
		}
	}
	for name := range families {
		t.Errorf("%s is gathered, but is not in the table", name)
	}
	problems, err := testutil.GatherAndLint(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func wantLabels(t *testing.T, family *dto.MetricFamily, m metrics.Metric) {
	t.Helper()
	values := map[string]map[string]bool{}
	for _, series := range family.GetMetric() {
		for _, pair := range series.GetLabel() {
			if values[pair.GetName()] == nil {
				values[pair.GetName()] = map[string]bool{}
			}
			values[pair.GetName()][pair.GetValue()] = true
		}
	}
	for _, l := range m.Labels {
		got := slices.Sorted(maps.Keys(values[l.Name]))
		if len(got) == 0 ||
			len(l.Values) > 0 && !slices.Equal(got, slices.Sorted(slices.Values(l.Values))) {
			t.Errorf("%s{%s}: gathered values %v, the table says %v", m.Name, l.Name, got, l.Values)
		}
		if l.Help == "" {
			t.Errorf("%s: label %s is not explained", m.Name, l.Name)
		}
		delete(values, l.Name)
	}
	for name := range values {
		t.Errorf("%s has the label %s, which is not in the table", m.Name, name)
	}
}
