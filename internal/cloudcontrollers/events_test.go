package cloudcontrollers_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/nodes"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// term is a Term with an API server in memory.
type term struct {
	client    *kubefake.Clientset
	cloud     cloudprovider.Interface
	informers informers.SharedInformerFactory
	metrics   *controllersmetrics.ControllerManagerMetrics
}

func (t *term) ClusterName() string                         { return "test" }
func (t *term) Cloud() cloudprovider.Interface              { return t.cloud }
func (t *term) Client(string) (kubernetes.Interface, error) { return t.client, nil }
func (t *term) Informers() informers.SharedInformerFactory  { return t.informers }
func (t *term) EndpointInformers() (informers.SharedInformerFactory, error) {
	return informers.NewSharedInformerFactory(t.client, 0), nil
}
func (t *term) NodeRecord() *nodes.Record                             { return nil }
func (t *term) ReportTrouble(string, error)                           {}
func (t *term) Registerer() prometheus.Registerer                     { return nil }
func (t *term) Metrics() *controllersmetrics.ControllerManagerMetrics { return t.metrics }

func (t *term) Recorder(source string) record.EventRecorder {
	return events.New(t.client.CoreV1()).Recorder(source)
}

func TestNodeRoute_EventsAreRecorded_WithoutABroadcasterOfClientGo(t *testing.T) {
	cloud := fake.New()
	cloud.On("CreateRoute").Fail(errors.New("quota exceeded"))
	tm := &term{
		client: kubefake.NewClientset(podNode(1, "10.1.0.1")), cloud: cloud.Provider(),
		metrics: controllersmetrics.NewControllerManagerMetrics("test"),
	}
	recorded := make(chan string, 100)
	tm.client.PrependReactor("create", "events",
		func(action clienttesting.Action) (bool, kruntime.Object, error) {
			event := action.(clienttesting.CreateAction).GetObject().(*v1.Event)
			recorded <- event.Source.Component + " " + event.Reason
			return true, event, nil
		})
	tm.informers = informers.NewSharedInformerFactory(tm.client, 0)
	run, err := routed(tm)
	if err != nil {
		t.Fatal(err)
	}
	runController(t, tm, run)
	if got, want := <-recorded, "route_controller FailedToCreateRoute"; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	waittest.Eventually(t, "the broadcasters have ended",
		func(context.Context) (_ struct{}, err error) {
			if left := broadcasters(); len(left) > 0 {
				err = errors.New(strings.Join(left, "\n\n"))
			}
			return struct{}{}, err
		})
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

// broadcasters returns the stacks of goroutines of client-go's broadcasters.
func broadcasters() (found []string) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "client-go/tools/record.") ||
			strings.Contains(stack, "apimachinery/pkg/watch.(*Broadcaster)") {
			found = append(found, stack)
		}
	}
	return found
}
