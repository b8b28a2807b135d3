package cloudcontrollers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	// The package registers its metrics when it is imported.
	_ "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/nodes"
	"github.com/fxccm/fxccm/internal/servicelb"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// Dashboards and alerts for upstream's controllers hold for these.
func TestMetrics_OfUpstreamsControllers_AreTheSame(t *testing.T) {
	cloud := fake.New()
	if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
		t.Fatal(err)
	}
	node := podNode(1)
	node.Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionUnknown},
	}
	registry := prometheus.NewRegistry()
	tm := &term{
		client: kubefake.NewClientset(node), cloud: cloud.Provider(), registry: registry,
		metrics: controllersmetrics.NewControllerManagerMetrics("test"),
		record:  nodes.NewRecord(func(string, error) {}),
	}
	tm.informers = informers.NewSharedInformerFactory(tm.client, 0)
	want := upstreamsMetrics(t, tm, node)

	service, errOfService := cloudcontrollers.ServiceLB(tm, labels.Everything(), 1,
		servicelb.Classes{Default: true})
	cloudNode, errOfNode := cloudcontrollers.CloudNode(tm, labels.Everything(), period, 1,
		nodes.Refresh{})
	lifecycle, errOfLifecycle := cloudcontrollers.CloudNodeLifecycle(tm, labels.Everything(),
		period, 1)
	if err := errors.Join(errOfService, errOfNode, errOfLifecycle); err != nil {
		t.Fatal(err)
	}
	runController(t, tm, func(ctx context.Context) error {
		var running sync.WaitGroup
		for _, run := range []cloudcontrollers.Run{service, cloudNode, lifecycle} {
			running.Go(func() { _ = run(ctx) })
		}
		running.Wait()
		return nil
	})
	waittest.Until(t, "the metrics are upstream's", func() error {
		if got := described(t, registry); !slices.Equal(got, want) {
			return fmt.Errorf("they are\n%s\nwant\n%s", strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
		return nil
	})
}

// upstreamsMetrics returns the metrics of upstream's controllers. A counter with labels has no
// series before its first call.
func upstreamsMetrics(t *testing.T, tm *term, node *v1.Node) []string {
	t.Helper()
	core := informers.NewSharedInformerFactory(tm.client, 0).Core().V1()
	if err := core.Nodes().Informer().GetStore().Add(node); err != nil {
		t.Fatal(err)
	}
	lifecycle, err := nodelifecycle.NewCloudNodeLifecycleController(core.Nodes(), tm.client,
		tm.cloud, period, 1)
	if err != nil {
		t.Fatal(err)
	}
	lifecycle.MonitorNodes(t.Context())
	service, err := servicecontroller.New(tm.cloud, tm.client, core.Services(), core.Nodes(),
		"test", nil)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	service.Run(over, 1, tm.metrics) // it ends its queues
	all := described(t, legacyregistry.DefaultGatherer)
	if len(all) != 8 {
		t.Fatalf("upstream's controllers have the metrics\n%s", strings.Join(all, "\n"))
	}
	return all
}

// described returns the names, types, labels and buckets of the controllers' metrics.
func described(t *testing.T, from prometheus.Gatherer) (all []string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !slices.ContainsFunc([]string{
			"service_controller_", "node_controller_", "cloud_node_lifecycle_controller_",
		}, func(prefix string) bool { return strings.HasPrefix(family.GetName(), prefix) }) {
			continue
		}
		text := fmt.Sprint(family.GetName(), " ", family.GetType())
		series := family.GetMetric()[0]
		for _, label := range series.GetLabel() {
			text += " " + label.GetName()
		}
		for _, bucket := range series.GetHistogram().GetBucket() {
			text += fmt.Sprint(" ", bucket.GetUpperBound())
		}
		all = append(all, text)
	}
	return all
}
