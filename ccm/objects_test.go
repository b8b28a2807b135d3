package ccm_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/metrics/metricstest"
)

// reportingCloud reports fixed objects, unless it panics.
type reportingCloud struct {
	cloudprovider.Interface
	panics *atomic.Bool
}

var reported = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func (c reportingCloud) LoadBalancerStatus() []status.LoadBalancer {
	if c.panics.Load() {
		panic("no status")
	}
	defective := func(lb status.LoadBalancer) status.LoadBalancer {
		lb.Reason, lb.Message = "SourceRangesIgnored", "every client may connect"
		return lb
	}
	at := func(state status.LoadBalancerState, name string, age time.Duration) status.LoadBalancer {
		return status.LoadBalancer{
			Namespace: "default", Service: name, State: state, Since: reported.Add(-age),
		}
	}
	return []status.LoadBalancer{
		at(status.LoadBalancerReady, "a", time.Hour),
		defective(at(status.LoadBalancerReady, "f", time.Second)),
		at(status.LoadBalancerWaiting, "b", time.Second),
		at(status.LoadBalancerWaiting, "c", time.Minute),
		at(status.LoadBalancerDegraded, "d", time.Second),
		at(status.LoadBalancerRefused, "e", time.Second),
	}
}

func (c reportingCloud) NodeStatus() []status.Node {
	return []status.Node{{Name: "young", Since: reported}, {Name: "old"}}
}

func TestStatus_ProviderReportsObjects_AreListedWorstFirstWhileTheTermIsOpen(t *testing.T) {
	cloud := reportingCloud{emptyCloud(), &atomic.Bool{}}
	p := standaloneParams("mine")
	p.Controllers = []ccm.Controller{idle("mine")}
	registry := prometheus.NewPedanticRegistry()
	p.Registerer = registry
	p.Providers = []ccm.Provider{
		provider(func() (cloudprovider.Interface, error) { return cloud, nil }),
	}
	m, stop := start(t, p)
	waitReady(t, m)
	names := func() (list []string) {
		current := m.Status()
		for _, lb := range current.LoadBalancers {
			list = append(list, lb.Service)
		}
		for _, node := range current.Nodes {
			list = append(list, node.Name)
		}
		return list
	}
	want := []string{"d", "e", "c", "b", "f", "a", "old", "young"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("the status lists %v, want %v", got, want)
	}

	if count, err := testutil.GatherAndCount(registry, "fxccm_load_balancers"); err != nil ||
		count != len(metrics.LoadBalancerStates()) {
		t.Errorf("%d series of load balancers, %v; want one for each state", count, err)
	}

	if defects, ok := metricstest.Value(t, registry, "fxccm_load_balancers_defective", "reason",
		"SourceRangesIgnored"); !ok || defects != 1 {
		t.Errorf("the metric counts %v defects, want 1", defects)
	}

	cloud.panics.Store(true)
	if got := names(); !slices.Equal(got, []string{"old", "young"}) {
		t.Errorf("after a panic the status lists %v, want only the nodes", got)
	}
	if warnings := runWarnings(m.Status()); len(warnings) != 1 {
		t.Errorf("the warnings are %q, want one about the panic", warnings)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := names(); len(got) > 0 {
		t.Errorf("without a term the status lists %v", got)
	}
}
