package hostintegration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// prober asks the cloud for the metadata of each Node, whatever comes of it.
func prober(nodes ...string) ccm.Controller {
	return controller("prober", func(term *ccm.Term) (ccm.RunnableFunc, error) {
		instances, _ := term.Cloud().InstancesV2()
		return func(ctx context.Context) error {
			for _, name := range nodes {
				_, _ = instances.InstanceMetadata(ctx, ccmtest.ReadyNode(name))
			}
			return untilEnd(ctx)
		}, nil
	})
}

// callKey names the series of calls.
type callKey struct{ iface, method, result string }

// counted is how often the registry says that each call was made. Left out are questions that the
// fake cloud keeps no record of.
func counted(t *testing.T, registry prometheus.Gatherer) map[callKey]int {
	t.Helper()
	calls := map[callKey]int{}
	for _, m := range family(t, registry, "fxccm_cloud_call_duration_seconds") {
		key := callKey{label(m, "interface"), label(m, "method"), label(m, "result")}
		if iface := fake.Method(key.method).Interface(); iface == "" ||
			key.method == string(fake.GetLoadBalancerName) {
			continue
		}
		calls[key] = int(m.GetHistogram().GetSampleCount())
	}
	return calls
}

func family(t *testing.T, registry prometheus.Gatherer, name string) []*dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// recorded is how often the cloud was called, by its own record.
func recorded(cloud *fake.Cloud) map[callKey]int {
	results := map[string]string{
		"": "ok", "panicked": "panic", "instance not found": "not_found", "busy": "retry",
		"context canceled": "cancelled",
	}
	calls := map[callKey]int{}
	for _, call := range cloud.Calls() {
		if call.Method == fake.GetLoadBalancerName {
			continue
		}
		result, known := results[call.Err]
		if !known {
			result = "error"
		}
		iface := string(call.Interface)
		if call.Interface == fake.Core || call.Interface == fake.InformerUser {
			iface = "Cloud"
		}
		calls[callKey{iface, string(call.Method), result}]++
	}
	return calls
}

func TestMetrics_CountTheCallsOfTheCloudAsTheCloudDoes(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	cloud := newCloud(t, "metric-1", "probe-ok", "probe-error", "probe-retry", "probe-panic",
		"probe-hang")
	cloud.On(fake.InstanceMetadata).For("probe-error").Fail(errors.New("no luck"))
	cloud.On(fake.InstanceMetadata).For("probe-retry").Fail(api.NewRetryError("busy", time.Second))
	cloud.On(fake.InstanceMetadata).For("probe-panic").Panic("no nerves")
	cloud.On(fake.InstanceMetadata).For("probe-hang").Hang()
	app := startApp(t, cloud,
		ccmtest.WithFx(fx.Supply(fx.Annotate(registry, fx.As(new(prometheus.Registerer))))),
		ccmtest.WithControllers(prober("probe-ok", "probe-absent", "probe-error", "probe-retry",
			"probe-panic", "probe-hang")))
	app.WaitReady()
	ccmtest.CreateNode(t, app.Client,
		ccmtest.TaintedNode("metric-1", ccmtest.NodePodCIDRs("10.244.31.0/24")))
	ccmtest.WaitNodeAddress(t, app.Client, "metric-1", corev1.NodeInternalIP)
	ccmtest.WaitRoute(t, cloud, "metric-1", "10.244.31.0/24")
	service := ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService("metrics"))
	ccmtest.WaitServiceAddress(t, app.Client, service.Namespace, service.Name)
	ccmtest.WaitCall(t, cloud, "a call hangs",
		func(c fake.Call) bool { return c.Object == "probe-hang" })
	// Without a term nothing is counted any more, and the series stay as long as the Manager runs.
	lose(t, app.Elector)

	got, want := counted(t, registry), recorded(cloud)
	for _, result := range []string{"ok", "not_found", "error", "retry", "panic", "cancelled"} {
		if want[callKey{"InstancesV2", "InstanceMetadata", result}] == 0 {
			t.Errorf("the cloud has no record of InstanceMetadata with result %s", result)
		}
	}
	// the cloud does not know of them
	maps.DeleteFunc(got, func(key callKey, _ int) bool { return key.result == "refused" })
	if !maps.Equal(got, want) {
		t.Errorf("the calls are counted as\n%s, the cloud has recorded\n%s", table(got),
			table(want))
	}
	for _, m := range family(t, registry, "fxccm_cloud_calls_in_flight") {
		if n := m.GetGauge().GetValue(); n != 0 {
			t.Errorf("%v calls of %s are in flight", n, label(m, "method"))
		}
	}
	for _, m := range family(t, registry, "fxccm_terms_ended_total") {
		want := 0.
		if label(m, "reason") == "lost" {
			want = 1
		}
		if n := m.GetCounter().GetValue(); n != want {
			t.Errorf("%v terms have ended with reason %s, want %v", n, label(m, "reason"), want)
		}
	}
}

func table(calls map[callKey]int) string {
	text := ""
	for key, n := range calls {
		text += fmt.Sprintf("\t%s.%s %s: %d\n", key.iface, key.method, key.result, n)
	}
	return text
}
