package metrics_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/metrics"
)

func newSet(t *testing.T, registerer prometheus.Registerer, manager string) *metrics.Set {
	t.Helper()
	set, err := metrics.New(registerer, manager)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func gather(t *testing.T, g prometheus.Gatherer) map[string]*dto.MetricFamily {
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

// everything makes each series happen.
func everything(s *metrics.Series) {
	s.Leading(true)
	s.State(func() string { return "leading" })
	s.TermBegan()
	s.TermOpened(2 * time.Second)
	for _, reason := range []metrics.EndReason{
		metrics.Stopped, metrics.Lost, metrics.Failed,
		metrics.DrainTimedOut,
	} {
		s.TermEnded(reason, time.Second)
	}
	for _, door := range []metrics.Door{metrics.DoorKube, metrics.DoorProvider} {
		s.Refused(door)
	}
	s.Trouble("quota", true)
	s.Objects(time.Now, func() metrics.Objects {
		return metrics.Objects{LoadBalancers: []metrics.LoadBalancer{
			{State: "ready", ProvisioningStatus: "ACTIVE", Since: time.Now()},
		}}
	})
	s.CallRefused("Routes", "CreateRoute")
	for _, result := range guard.Results() {
		if result != guard.Refused {
			s.CallStarted("Routes", "CreateRoute")
			s.CallEnded("Routes", "CreateRoute", result, time.Second)
		}
	}
}

func TestTable_IsWhatIsGathered(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	series := newSet(t, registry, "m").Begin()
	everything(series)
	families := gather(t, registry)
	for _, m := range metrics.Table() {
		family := families[m.Name]
		delete(families, m.Name)
		if family == nil {
			t.Errorf("%s is in the table, and is not gathered", m.Name)
			continue
		}
		if got := strings.ToLower(family.GetType().String()); got != string(m.Type) {
			t.Errorf("%s is a %s, the table says %s", m.Name, got, m.Type)
		}
		if family.GetHelp() != m.Help {
			t.Errorf("%s: gathered help %q, the table says %q", m.Name, family.GetHelp(), m.Help)
		}
		compareLabels(t, m, family)
		compareBuckets(t, m, family)
	}
	for name := range families {
		t.Errorf("%s is gathered, and is not in the table", name)
	}
}

func compareLabels(t *testing.T, m metrics.Metric, family *dto.MetricFamily) {
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
		switch {
		case len(got) == 0:
			t.Errorf("%s has no label %s", m.Name, l.Name)
		case l.Name == "interface":
			if !slices.Contains(l.Values, got[0]) {
				t.Errorf("%s: the table does not know the interface %s", m.Name, got[0])
			}
		case len(l.Values) > 0 && !slices.Equal(got, slices.Sorted(slices.Values(l.Values))):
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

func compareBuckets(t *testing.T, m metrics.Metric, family *dto.MetricFamily) {
	t.Helper()
	var bounds []float64
	for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
		bounds = append(bounds, bucket.GetUpperBound())
	}
	if !slices.Equal(bounds, m.Buckets) {
		t.Errorf("%s: gathered buckets %v, the table says %v", m.Name, bounds, m.Buckets)
	}
}

func TestTable_FollowsPrometheusConventions(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	everything(newSet(t, registry, "m").Begin())
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
