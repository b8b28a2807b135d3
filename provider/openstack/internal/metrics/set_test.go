package metrics_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func begin(t *testing.T, registerer prometheus.Registerer, manager string) *metrics.Series {
	t.Helper()
	set, err := metrics.New(registerer, manager)
	if err != nil {
		t.Fatal(err)
	}
	return set.Begin()
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

// value is that of the series with these labels, given as name and value in turn, or 0 and false
// without such a series. Of a histogram it is the count.
func value(t *testing.T, g prometheus.Gatherer, metric string, labels ...string) (float64, bool) {
	t.Helper()
	for _, series := range gather(t, g)[metric].GetMetric() {
		if !has(series, labels) {
			continue
		}
		switch {
		case series.Counter != nil:
			return series.GetCounter().GetValue(), true
		case series.Gauge != nil:
			return series.GetGauge().GetValue(), true
		default:
			return float64(series.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
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

func want(t *testing.T, g prometheus.Gatherer, want float64, metric string, labels ...string) {
	t.Helper()
	if got, ok := value(t, g, metric, labels...); !ok || got != want {
		t.Errorf("%s%v = %v (exists: %v), want %v", metric, labels, got, ok, want)
	}
}

// everything makes each series happen.
func everything(s *metrics.Series) {
	for _, service := range []string{
		"compute", "identity", "key-manager",
		"load-balancer", "network",
	} {
		s.RequestStarted(service)
		s.RequestEnded(service, "server_list", "200", time.Second)
	}
	for _, reason := range []string{
		"409", "429", "500", "502", "503", "504",
		"connection", "timeout",
	} {
		s.RequestRetried(reason)
	}
	for _, result := range []string{"ok", "refused", "failed"} {
		s.LoggedIn(result)
	}
	s.RateLimitWaited(time.Second)
	for _, source := range []string{"cache", "list", "direct"} {
		s.Lookup(source)
	}
	s.AbsenceRefused()
	s.AbsentInstances(1)
	s.Served(time.Second)
	s.Drifted()
	s.Repaired()
	for _, resource := range []string{"floatingip", "loadbalancer", "port", "security_group"} {
		s.Quota("region", resource, 2, 1)
	}
	for _, operation := range []string{
		"loadbalancer_delete", "loadbalancer_ensure",
		"loadbalancer_update",
	} {
		s.Reconciled(operation, errors.New("no"), time.Second)
	}
}

func TestQuota_WithoutALimit_HasNoSeriesOfIt(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := begin(t, registry, "m")
	s.Quota("", "port", 2, 1)
	s.Quota("", "port", -1, 3)
	if limit, told := value(t, registry, "fxccm_openstack_quota_limit"); told {
		t.Errorf("the limit is %v", limit)
	}
	if used, _ := value(t, registry, "fxccm_openstack_quota_used", "resource", "port"); used != 3 {
		t.Errorf("%v are used, want 3", used)
	}
	s.End()
	if used, told := value(t, registry, "fxccm_openstack_quota_used"); told {
		t.Errorf("after the term %v are used", used)
	}
}

func TestTable_IsWhatIsGathered(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	everything(begin(t, registry, "m"))
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
			if len(got) == 0 || (len(l.Values) > 0 &&
				!slices.Equal(got, slices.Sorted(slices.Values(l.Values)))) {
				t.Errorf("%s{%s}: gathered values %v, the table says %v", m.Name,
					l.Name, got, l.Values)
			}
			if l.Help == "" {
				t.Errorf("%s: label %s is not explained", m.Name, l.Name)
			}
			delete(values, l.Name)
		}
		for name := range values {
			t.Errorf("%s has the label %s, which is not in the table", m.Name, name)
		}
		var bounds []float64
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			bounds = append(bounds, bucket.GetUpperBound())
		}
		if !slices.Equal(bounds, m.Buckets) {
			t.Errorf("%s: gathered buckets %v, the table says %v", m.Name, bounds, m.Buckets)
		}
	}
	for name := range families {
		t.Errorf("%s is gathered, and is not in the table", name)
	}
}

func TestTable_FollowsPrometheusConventions(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	everything(begin(t, registry, "m"))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Dashboards and alerts of OCCM's users go by these names and labels.
func TestTable_HasTheSixMetricsOfOCCM(t *testing.T) {
	labels := map[string]string{}
	for _, m := range metrics.Table() {
		if len(m.Labels) == 1 {
			labels[m.Name] = m.Labels[0].Name
		}
	}
	for name, label := range map[string]string{
		"openstack_api_request_duration_seconds":             "request",
		"openstack_api_requests_total":                       "request",
		"openstack_api_request_errors_total":                 "request",
		"cloudprovider_openstack_reconcile_duration_seconds": "operation",
		"cloudprovider_openstack_reconcile_total":            "operation",
		"cloudprovider_openstack_reconcile_errors_total":     "operation",
	} {
		if labels[name] != label {
			t.Errorf("%s has the only label %q, want %q", name, labels[name], label)
		}
	}
}

func TestSeries_CountWhatTheyAreTold(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := begin(t, registry, "m")
	want(t, registry, 0, "fxccm_openstack_logins_total", "manager", "m", "result", "refused")
	want(t, registry, 0, "fxccm_openstack_request_retries_total", "reason", "503")
	want(t, registry, 0, "fxccm_openstack_absent_instances")

	s.RequestStarted("compute")
	s.RequestStarted("compute")
	s.RequestEnded("compute", "server_get", "200", 2*time.Second)
	want(t, registry, 1, "fxccm_openstack_requests_in_flight", "service", "compute")
	want(t, registry, 1, "fxccm_openstack_request_duration_seconds", "operation", "server_get",
		"code", "200", "manager", "m")
	s.AbsentInstances(5)
	s.AbsentInstances(3)
	want(t, registry, 3, "fxccm_openstack_absent_instances")
	s.Reconciled("loadbalancer_ensure", nil, time.Second)
	s.Reconciled("loadbalancer_ensure", errors.New("no"), time.Second)
	want(t, registry, 2, "cloudprovider_openstack_reconcile_total", "operation",
		"loadbalancer_ensure")
	want(t, registry, 1, "cloudprovider_openstack_reconcile_errors_total", "operation",
		"loadbalancer_ensure")
	want(t, registry, 2, "cloudprovider_openstack_reconcile_duration_seconds", "operation",
		"loadbalancer_ensure")
}

func TestRequests_UnderOCCMsNames(t *testing.T) {
	for _, c := range []struct {
		operation, code, request string
		errors                   float64
	}{
		{"server_get", "200", "server_get", 0},
		{"loadbalancer_create", "201", "loadbalancer_create", 0},
		{"version_list", "300", "version_list", 0},
		// OCCM counts these as errors, and alerts on its errors are noise for it.
		{"server_get", "404", "server_get", 0},
		{"server_list", "404", "server_list", 0},
		{"floating_ip_delete", "404", "floating_ip_delete", 0},
		{"port_update", "404", "port_update", 1},
		{"server_get", "401", "server_get", 1},
		{"server_get", "503", "server_get", 1},
		{"server_get", "timeout", "server_get", 1},
		// OCCM knows one name for all changes of a router.
		{"router_add_extraroutes", "409", "router_update", 1},
		{"router_remove_extraroutes", "200", "router_update", 0},
	} {
		registry := prometheus.NewPedanticRegistry()
		s := begin(t, registry, "m")
		s.RequestStarted("x")
		s.RequestEnded("x", c.operation, c.code, time.Second)
		want(t, registry, 1, "openstack_api_requests_total", "request", c.request)
		want(t, registry, c.errors, "openstack_api_request_errors_total", "request", c.request)
		want(t, registry, 1, "openstack_api_request_duration_seconds", "request", c.request)
	}
}

func TestRequests_OfLoginsAreNotOCCMs(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := begin(t, registry, "m")
	s.RequestStarted("identity")
	s.RequestEnded("identity", "token_create", "201", time.Second)
	want(t, registry, 1, "fxccm_openstack_request_duration_seconds", "operation", "token_create")
	if got, ok := value(t, registry, "openstack_api_requests_total"); ok {
		t.Errorf("OCCM counts no logins, and here are %v", got)
	}
}

func TestClouds_ThatComeAndGoLeaveOnlyOCCMsSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for range 2 {
		a, b := begin(t, registry, "a"), begin(t, registry, "b")
		everything(a)
		everything(b)
		a.End()
		a.End()
		if _, ok := value(t, registry, "fxccm_openstack_logins_total", "manager", "a"); ok {
			t.Error("the cloud that ended is still seen")
		}
		want(t, registry, 1, "fxccm_openstack_logins_total", "manager", "b", "result", "ok")
		b.End()
		everything(b)
	}
	for name := range gather(t, registry) {
		if strings.HasPrefix(name, "fxccm_") {
			t.Errorf("%s is left, although no cloud lives", name)
		}
	}
	if n, _ := value(t, registry, "openstack_api_requests_total"); n == 0 {
		t.Error("OCCM's counters are gone: a counter that is reset each term cannot be added up")
	}
}

func TestClouds_OfOneNameShareTheirSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a, b := begin(t, registry, "m"), begin(t, registry, "m")
	a.AbsentInstances(2)
	b.AbsentInstances(3)
	want(t, registry, 5, "fxccm_openstack_absent_instances")
	a.RequestStarted("compute")
	a.End()
	want(t, registry, 3, "fxccm_openstack_absent_instances")
	a.AbsentInstances(7)
	want(t, registry, 3, "fxccm_openstack_absent_instances")
	// The request was counted as started.
	a.RequestEnded("compute", "server_get", "cancelled", time.Second)
	want(t, registry, 0, "fxccm_openstack_requests_in_flight")
	b.End()
}

func TestNew_WithoutRegisterer_RecordsNothing(t *testing.T) {
	s := begin(t, nil, "m")
	everything(s)
	s.End()
}

func TestNew_NamesTheMetricThatIsInTheWay(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "openstack_api_requests_total", Help: "x"}))
	if _, err := metrics.New(registry, "m"); err == nil ||
		!strings.Contains(err.Error(), "openstack_api_requests_total") {
		t.Errorf("got %v, want an error that names the metric", err)
	}
	if _, err := metrics.New(nil, "\xff"); err == nil {
		t.Error("a name that Prometheus cannot have was accepted")
	}
}

func TestSeries_AreSafeForConcurrentUse(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s := begin(t, registry, "m")
			for range 50 {
				everything(s)
			}
			s.End()
		})
	}
	all.Go(func() {
		for range 20 {
			if _, err := registry.Gather(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}
