package metrics_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/metrics/metricstest"
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

// everything records a value in each series.
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
	if limit, told := metricstest.Value(t, registry, "fxccm_openstack_quota_limit"); told {
		t.Errorf("the limit is %v", limit)
	}
	metricstest.Want(t, registry, 3, "fxccm_openstack_quota_used", "resource", "port")
	s.End()
	if used, told := metricstest.Value(t, registry, "fxccm_openstack_quota_used"); told {
		t.Errorf("after the term %v are used", used)
	}
}

func TestTable_EqualsTheGatheredMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	everything(begin(t, registry, "m"))
	metricstest.WantTable(t, registry, metrics.Table())
}

// Dashboards and alerts of OCCM's users depend on these names and labels.
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

func TestSeries_EachCall_IsCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := begin(t, registry, "m")
	metricstest.Want(t, registry, 0, "fxccm_openstack_logins_total", "manager", "m",
		"result", "refused")
	metricstest.Want(t, registry, 0, "fxccm_openstack_request_retries_total", "reason", "503")
	metricstest.Want(t, registry, 0, "fxccm_openstack_absent_instances")

	s.RequestStarted("compute")
	s.RequestStarted("compute")
	s.RequestEnded("compute", "server_get", "200", 2*time.Second)
	metricstest.Want(t, registry, 1, "fxccm_openstack_requests_in_flight", "service", "compute")
	metricstest.Want(t, registry, 1, "fxccm_openstack_request_duration_seconds",
		"operation", "server_get", "code", "200", "manager", "m")
	s.AbsentInstances(5)
	s.AbsentInstances(3)
	metricstest.Want(t, registry, 3, "fxccm_openstack_absent_instances")
	s.Reconciled("loadbalancer_ensure", nil, time.Second)
	s.Reconciled("loadbalancer_ensure", errors.New("no"), time.Second)
	metricstest.Want(t, registry, 2, "cloudprovider_openstack_reconcile_total", "operation",
		"loadbalancer_ensure")
	metricstest.Want(t, registry, 1, "cloudprovider_openstack_reconcile_errors_total", "operation",
		"loadbalancer_ensure")
	metricstest.Want(t, registry, 2, "cloudprovider_openstack_reconcile_duration_seconds",
		"operation",
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
		// OCCM counts these as errors, so its alerts on errors are noisy.
		{"server_get", "404", "server_get", 0},
		{"server_list", "404", "server_list", 0},
		{"floating_ip_delete", "404", "floating_ip_delete", 0},
		{"port_update", "404", "port_update", 1},
		{"server_get", "401", "server_get", 1},
		{"server_get", "503", "server_get", 1},
		{"server_get", "timeout", "server_get", 1},
		// OCCM has one name for all changes of a router.
		{"router_add_extraroutes", "409", "router_update", 1},
		{"router_remove_extraroutes", "200", "router_update", 0},
	} {
		registry := prometheus.NewPedanticRegistry()
		s := begin(t, registry, "m")
		s.RequestStarted("x")
		s.RequestEnded("x", c.operation, c.code, time.Second)
		metricstest.Want(t, registry, 1, "openstack_api_requests_total", "request", c.request)
		metricstest.Want(t, registry, c.errors, "openstack_api_request_errors_total",
			"request", c.request)
		metricstest.Want(t, registry, 1, "openstack_api_request_duration_seconds",
			"request", c.request)
	}
}

func TestRequests_OfLoginsAreNotOCCMs(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := begin(t, registry, "m")
	s.RequestStarted("identity")
	s.RequestEnded("identity", "token_create", "201", time.Second)
	metricstest.Want(t, registry, 1, "fxccm_openstack_request_duration_seconds",
		"operation", "token_create")
	if got, ok := metricstest.Value(t, registry, "openstack_api_requests_total"); ok {
		t.Errorf("the series of logins are %v, want none as with OCCM", got)
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
		logins := "fxccm_openstack_logins_total"
		if _, ok := metricstest.Value(t, registry, logins, "manager", "a"); ok {
			t.Error("the closed cloud still has series")
		}
		metricstest.Want(t, registry, 1, "fxccm_openstack_logins_total",
			"manager", "b", "result", "ok")
		b.End()
		everything(b)
	}
	for name := range metricstest.Gather(t, registry) {
		if strings.HasPrefix(name, "fxccm_") {
			t.Errorf("%s remains, although no cloud is open", name)
		}
	}
	if n, _ := metricstest.Value(t, registry, "openstack_api_requests_total"); n == 0 {
		t.Error("OCCM's counters are gone: a counter that is reset each term cannot be added up")
	}
}

func TestClouds_OfOneNameShareTheirSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a, b := begin(t, registry, "m"), begin(t, registry, "m")
	a.AbsentInstances(2)
	b.AbsentInstances(3)
	metricstest.Want(t, registry, 5, "fxccm_openstack_absent_instances")
	a.RequestStarted("compute")
	a.End()
	metricstest.Want(t, registry, 3, "fxccm_openstack_absent_instances")
	a.AbsentInstances(7)
	metricstest.Want(t, registry, 3, "fxccm_openstack_absent_instances")
	// The request was counted as started.
	a.RequestEnded("compute", "server_get", "canceled", time.Second)
	metricstest.Want(t, registry, 0, "fxccm_openstack_requests_in_flight")
	b.End()
}

func TestNew_MetricConflicts_ErrorNamesIt(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "openstack_api_requests_total", Help: "x"}))
	if _, err := metrics.New(registry, "m"); err == nil ||
		!strings.Contains(err.Error(), "openstack_api_requests_total") {
		t.Errorf("got %v, want an error that names the metric", err)
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
