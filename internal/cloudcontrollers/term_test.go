package cloudcontrollers_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/nodes"
)

// term is a Term with an API server in memory.
type term struct {
	client    *kubefake.Clientset
	cloud     cloudprovider.Interface
	informers informers.SharedInformerFactory
	metrics   *controllersmetrics.ControllerManagerMetrics
	// record and registry may be nil.
	record   *nodes.Record
	registry prometheus.Registerer

	mu       sync.Mutex
	troubles map[string]string
}

func (t *term) ClusterName() string                         { return "test" }
func (t *term) Cloud() cloudprovider.Interface              { return t.cloud }
func (t *term) Client(string) (kubernetes.Interface, error) { return t.client, nil }
func (t *term) Informers() informers.SharedInformerFactory  { return t.informers }
func (t *term) EndpointInformers() (informers.SharedInformerFactory, error) {
	return informers.NewSharedInformerFactory(t.client, 0), nil
}
func (t *term) NodeRecord() *nodes.Record                             { return t.record }
func (t *term) Registerer() prometheus.Registerer                     { return t.registry }
func (t *term) Metrics() *controllersmetrics.ControllerManagerMetrics { return t.metrics }

func (t *term) ReportTrouble(subject string, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.troubles == nil {
		t.troubles = map[string]string{}
	}
	delete(t.troubles, subject)
	if cause != nil {
		t.troubles[subject] = cause.Error()
	}
}

// mustHaveTroubles checks that there are exactly these problems.
func (t *term) mustHaveTroubles(test *testing.T, want map[string]string) {
	test.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !maps.Equal(t.troubles, want) {
		test.Errorf("the troubles are %q, want %q", t.troubles, want)
	}
}

func (t *term) Recorder(source string) record.EventRecorder {
	return events.New(t.client.CoreV1(), klog.Background()).Recorder(source)
}

// runController runs a controller until the test ends.
func runController(t *testing.T, tm *term, run cloudcontrollers.Run) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	tm.informers.StartWithContext(ctx)
	tm.informers.WaitForCacheSyncWithContext(ctx)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		tm.informers.Shutdown()
	})
}
