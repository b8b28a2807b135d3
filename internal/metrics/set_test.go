package metrics_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	componentmetrics "k8s.io/component-base/metrics"

	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/metrics/metricstest"
)

func newSet(t *testing.T, registerer prometheus.Registerer, manager string) *metrics.Set {
	t.Helper()
	set, err := metrics.New(registerer, manager)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// everything records a value of each series.
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
			{
				State: "ready", ProvisioningStatus: "ACTIVE", Since: time.Now(),
				Defect: "LoadBalancerForcedInternal",
			},
		}}
	})
	// Each interface of the table occurs, because the table lists all values of the label.
	for _, iface := range []string{
		"Cloud", "Clusters", "Instances", "InstancesV2", "LoadBalancer", "PVLabeler", "Routes",
		"Zones",
	} {
		s.CallRefused(iface, "method")
		s.CallStarted(iface, "method")
		s.CallEnded(iface, "method", guard.OK, time.Second)
	}
	for _, result := range guard.Results() {
		if result != guard.Refused {
			s.CallStarted("Routes", "CreateRoute")
			s.CallEnded("Routes", "CreateRoute", result, time.Second)
		}
	}
}

func TestTable_AllSeriesRecorded_EqualsTheGatheredMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	everything(newSet(t, registry, "m").Begin())
	metricstest.WantTable(t, registry, metrics.Table())
}

func TestSeries_Records_AreCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	set := newSet(t, registry, "a")
	if families := metricstest.Gather(t, registry); len(families) != 0 {
		t.Errorf("series exist before the Manager runs: %v", families)
	}
	series := set.Begin()
	for _, zero := range [][]string{
		{"fxccm_leading"},
		{"fxccm_terms_total"},
		{"fxccm_term_open_duration_seconds"},
		{"fxccm_term_drain_duration_seconds"},
		{"fxccm_terms_ended_total", "reason", "drain_timeout"},
		{"fxccm_fence_refused_total", "door", "kube"},
		{"fxccm_fence_refused_total", "door", "provider"},
	} {
		metricstest.Want(t, registry, 0, zero[0], append(zero[1:], "manager", "a")...)
	}

	series.Leading(true)
	series.Leading(true)
	metricstest.Want(t, registry, 1, "fxccm_leading")
	series.Leading(false)
	series.Leading(false)
	metricstest.Want(t, registry, 0, "fxccm_leading")

	series.TermBegan()
	series.TermBegan()
	series.TermOpened(time.Minute)
	series.TermEnded(metrics.Lost, time.Second)
	series.TermEnded(metrics.DrainTimedOut, time.Second)
	series.Refused(metrics.DoorProvider)
	metricstest.Want(t, registry, 2, "fxccm_terms_total")
	metricstest.Want(t, registry, 1, "fxccm_term_open_duration_seconds")
	metricstest.Want(t, registry, 2, "fxccm_term_drain_duration_seconds")
	metricstest.Want(t, registry, 1, "fxccm_terms_ended_total", "reason", "lost")
	metricstest.Want(t, registry, 0, "fxccm_terms_ended_total", "reason", "stopped")
	metricstest.Want(t, registry, 1, "fxccm_fence_refused_total", "door", "provider")

	call := []string{"interface", "Routes", "method", "ListRoutes"}
	series.CallStarted("Routes", "ListRoutes")
	series.CallStarted("Routes", "ListRoutes")
	metricstest.Want(t, registry, 2, "fxccm_cloud_calls_in_flight", call...)
	series.CallEnded("Routes", "ListRoutes", guard.Retry, 1500*time.Millisecond)
	metricstest.Want(t, registry, 1, "fxccm_cloud_calls_in_flight", call...)
	metricstest.Want(t, registry, 1, "fxccm_cloud_call_duration_seconds",
		append(call, "result", "retry")...)
	histogram := metricstest.Gather(t,
		registry)["fxccm_cloud_call_duration_seconds"].GetMetric()[0].GetHistogram()
	if histogram.GetSampleSum() != 1.5 {
		t.Errorf("the recorded duration of a call of 1.5 s is %v s", histogram.GetSampleSum())
	}
	series.CallRefused("Routes", "ListRoutes")
	metricstest.Want(t, registry, 1, "fxccm_cloud_calls_in_flight", call...)
	metricstest.Want(t, registry, 1, "fxccm_cloud_call_duration_seconds",
		append(call, "result", "refused")...)
	metricstest.Want(t, registry, 1, "fxccm_fence_refused_total", "door", "cloud")
}

func TestObjects_OfTwoManagersOfOneName_AddUpUntilTheirTermsEnd(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(age time.Duration) time.Time { return now.Add(-age) }
	report := func(age time.Duration) (stop func()) {
		series := newSet(t, registry, "a").Begin()
		t.Cleanup(series.End)
		return series.Objects(func() time.Time { return now }, func() metrics.Objects {
			return metrics.Objects{
				LoadBalancers: []metrics.LoadBalancer{
					{
						State: "ready", ProvisioningStatus: "ACTIVE", Since: ago(time.Hour),
						Defect: "LoadBalancerForcedInternal",
					},
					{State: "waiting", ProvisioningStatus: "PENDING_CREATE", Since: ago(age)},
					{State: "waiting", ProvisioningStatus: "PENDING_CREATE", Since: ago(0)},
					{State: "refused", Since: ago(2 * age)},
				},
				Nodes: []time.Time{ago(age), ago(0)},
			}
		})
	}
	want := func(values ...float64) {
		t.Helper()
		for i, labels := range [][]string{
			{"fxccm_load_balancers", "state", "ready"},
			{"fxccm_load_balancers", "state", "waiting"},
			{"fxccm_load_balancers", "state", "degraded"},
			{"fxccm_load_balancers_oldest_seconds", "state", "waiting"},
			{"fxccm_load_balancers_oldest_seconds", "state", "refused"},
			{"fxccm_load_balancers_oldest_seconds", "state", "degraded"},
			{"fxccm_load_balancers_provisioning", "status", "PENDING_CREATE"},
			{"fxccm_load_balancers_defective", "reason", "LoadBalancerForcedInternal"},
			{"fxccm_nodes_waiting"},
			{"fxccm_nodes_waiting_oldest_seconds"},
		} {
			metricstest.Want(t, registry, values[i], labels[0], append(labels[1:], "manager",
				"a")...)
		}
	}
	first := report(time.Minute)
	want(1, 2, 0, 60, 120, 0, 2, 1, 2, 60)
	second := report(time.Hour)
	want(2, 4, 0, 3600, 7200, 0, 4, 2, 4, 3600)
	second()
	want(1, 2, 0, 60, 120, 0, 2, 1, 2, 60)
	first()
	if _, ok := metricstest.Value(t, registry, "fxccm_load_balancers"); ok {
		t.Error("a Manager without a term has metrics of load balancers")
	}
}

func TestManagerState_OfTwoManagersOfOneName_AddsUpUntilTheyEnd(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	state := "standby"
	first, second := newSet(t, registry, "a").Begin(), newSet(t, registry, "a").Begin()
	first.State(func() string { return state })
	second.State(func() string { return "degraded" })
	want := func(values ...float64) {
		t.Helper()
		for i, name := range []string{"standby", "leading", "draining", "degraded"} {
			metricstest.Want(t, registry, values[i], "fxccm_manager_state",
				"manager", "a", "state", name)
		}
	}
	want(1, 0, 0, 1)
	state = "leading"
	want(0, 1, 0, 1)
	second.End()
	want(0, 1, 0, 0)
	state = "stopped"
	want(0, 0, 0, 0)
	first.End()
	if _, ok := metricstest.Value(t, registry, "fxccm_manager_state"); ok {
		t.Error("a Manager that has ended has a state")
	}
}

func TestManagers_Ended_LeaveNoSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for range 2 {
		var running []*metrics.Series
		for i := range 50 {
			series := newSet(t, registry, fmt.Sprintf("cluster-%d", i)).Begin()
			everything(series)
			running = append(running, series)
		}
		if n := len(metricstest.Gather(t, registry)["fxccm_leading"].GetMetric()); n != 50 {
			t.Errorf("%d of 50 Managers have series", n)
		}
		// again in the second round
		metricstest.Want(t, registry, 1, "fxccm_terms_total", "manager", "cluster-49")
		running[0].End()
		if _, ok := metricstest.Value(t, registry, "fxccm_leading", "manager", "cluster-0"); ok {
			t.Error("the ended Manager still has series")
		}
		metricstest.Want(t, registry, 1, "fxccm_leading", "manager", "cluster-10")
		for _, series := range running {
			series.End()
		}
		for name, family := range metricstest.Gather(t, registry) {
			t.Errorf("%s has %d series, although no Manager runs", name, len(family.GetMetric()))
		}
	}
}

func TestSet_TermEnds_NextTermBeginsWithoutItsSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	set := newSet(t, registry, "m")
	first := set.Begin()
	everything(first)
	first.CallStarted("Routes", "ListRoutes")
	first.End()
	first.End()
	everything(first)
	if families := metricstest.Gather(t, registry); len(families) != 0 {
		t.Errorf("records after the end created series: %v", families)
	}

	second := set.Begin()
	metricstest.Want(t, registry, 0, "fxccm_leading")
	metricstest.Want(t, registry, 0, "fxccm_terms_total")
	// A call of the first run ends only now.
	first.CallEnded("Routes", "ListRoutes", guard.Canceled, time.Hour)
	if got, ok := metricstest.Value(t, registry, "fxccm_cloud_calls_in_flight"); ok {
		t.Errorf("a call of the previous run counts in this one: %v in flight", got)
	}
	second.TermBegan()
	first.End()
	metricstest.Want(t, registry, 1, "fxccm_terms_total")
}

func TestManagers_SameName_ShareSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a, b := newSet(t, registry, "kubernetes").Begin(), newSet(t, registry, "kubernetes").Begin()
	a.Leading(true)
	b.Leading(false)
	metricstest.Want(t, registry, 1, "fxccm_leading")
	a.CallStarted("Routes", "ListRoutes")
	b.TermBegan()
	a.End()
	metricstest.Want(t, registry, 0, "fxccm_leading")
	metricstest.Want(t, registry, 1, "fxccm_terms_total")
	a.CallEnded("Routes", "ListRoutes", guard.OK, time.Second)
	metricstest.Want(t, registry, 0, "fxccm_cloud_calls_in_flight")
	a.Leading(true)
	metricstest.Want(t, registry, 0, "fxccm_leading")
	b.End()
	if families := metricstest.Gather(t, registry); len(families) != 0 {
		t.Errorf("remaining series: %v", families)
	}
}

func TestNew_WithoutRegisterer_DoesNotFail(t *testing.T) {
	everything(newSet(t, nil, "a").Begin())
	newSet(t, prometheus.WrapRegistererWithPrefix("x_", nil), "a").Begin().End()
}

func TestNew_WrappedRegisterer_IsShared(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, manager := range []string{"a", "b"} {
		for _, region := range []string{"north", "south"} {
			wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"region": region}, registry)
			newSet(t, wrapped, manager).Begin().TermBegan()
		}
		newSet(t, prometheus.WrapRegistererWithPrefix("host_", registry),
			manager).Begin().TermBegan()
	}
	metricstest.Want(t, registry, 1, "fxccm_terms_total", "manager", "b", "region", "south")
	metricstest.Want(t, registry, 1, "host_fxccm_terms_total", "manager", "b")
	if n := len(metricstest.Gather(t, registry)["fxccm_terms_total"].GetMetric()); n != 4 {
		t.Errorf("%d series, want 2 Managers in 2 regions", n)
	}
}

// The registerer is like that of legacyregistry, which is a global.
func TestNew_RegistererOfAKubernetesRegistry_IsAccepted(t *testing.T) {
	registry := componentmetrics.NewKubeRegistry()
	newSet(t, registry.Registerer(), "a").Begin().TermBegan()
	newSet(t, registry.Registerer(), "b").Begin().TermBegan()
	metricstest.Want(t, registry, 1, "fxccm_terms_total", "manager", "a")
}

type refusing struct{ prometheus.Registerer }

func (refusing) Register(prometheus.Collector) error { return errors.New("full") }

func TestNew_RegistrationFails_ErrorNamesTheCause(t *testing.T) {
	taken := func(c prometheus.Collector) prometheus.Registerer {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(c)
		return registry
	}
	var help string
	for _, m := range metrics.Table() {
		if m.Name == "fxccm_terms_total" {
			help = m.Help
		}
	}
	for name, c := range map[string]struct {
		registerer prometheus.Registerer
		manager    string
		want       string
	}{
		"another metric with the name": {taken(prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "fxccm_leading", Help: "x"})), "m", "fxccm_leading"},
		"the same metric of another": {taken(prometheus.NewCounterVec(
			prometheus.CounterOpts{
				Name: "fxccm_terms_total",
				Help: help,
			}, []string{"manager"})), "m", "fxccm_terms_total"},
		"registerer with an error": {refusing{}, "m", "full"},
		"manager is not UTF-8":     {prometheus.NewRegistry(), "m\xff", `"m\xff"`},
	} {
		set, err := metrics.New(c.registerer, c.manager)
		if err == nil || set != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that names %s", name, err, c.want)
		}
	}
}

func TestSeries_ConcurrentUse_LeavesNoSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var managers sync.WaitGroup
	for i := range 8 {
		managers.Go(func() {
			set, err := metrics.New(registry, fmt.Sprintf("m-%d", i%4))
			if err != nil {
				t.Error(err)
				return
			}
			for range 10 {
				series := set.Begin()
				var users sync.WaitGroup
				for range 3 {
					users.Go(func() { everything(series) })
				}
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
				series.End() // while the users work
				users.Wait()
			}
		})
	}
	managers.Wait()
	if families := metricstest.Gather(t, registry); len(families) != 0 {
		t.Errorf("remaining series: %v", families)
	}
}
