package cloudcontrollers_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	cloudapi "k8s.io/cloud-provider/api"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/provider/fake"
)

// term is a Term with an API server in memory.
type term struct {
	client    *kubefake.Clientset
	cloud     cloudprovider.Interface
	informers informers.SharedInformerFactory
	metrics   *controllersmetrics.ControllerManagerMetrics
}

func (t *term) ClusterName() string                                   { return "test" }
func (t *term) Cloud() cloudprovider.Interface                        { return t.cloud }
func (t *term) Client(string) (kubernetes.Interface, error)           { return t.client, nil }
func (t *term) Informers() informers.SharedInformerFactory            { return t.informers }
func (t *term) Metrics() *controllersmetrics.ControllerManagerMetrics { return t.metrics }

// Each controller runs alone, because upstream's service controller has a data race when nodes
// exist.
func TestUpstreamsControllers_EventsAreRecorded_WithoutBroadcastersOfClientGo(t *testing.T) {
	taint := v1.Taint{Key: cloudapi.TaintExternalCloudProvider, Effect: v1.TaintEffectNoSchedule}
	fresh := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: v1.NodeSpec{
		PodCIDR: "10.0.1.0/24", PodCIDRs: []string{"10.0.1.0/24"}, Taints: []v1.Taint{taint},
	}}
	gone := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gone"},
		Spec:       v1.NodeSpec{ProviderID: "fake://region-1/gone"},
	}
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80}},
			IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
		},
	}
	for want, test := range map[string]struct {
		object kruntime.Object
		build  func(*term) (cloudcontrollers.Run, error)
	}{
		"cloud-node-controller Synced": {fresh, func(t *term) (cloudcontrollers.Run, error) {
			return cloudcontrollers.CloudNode(t, time.Minute, 1, 1)
		}},
		"cloud-node-lifecycle-controller DeletingNode": {
			gone, func(t *term) (cloudcontrollers.Run, error) {
				return cloudcontrollers.CloudNodeLifecycle(t, time.Minute, 1)
			},
		},
		"service-controller EnsuringLoadBalancer": {
			service, func(t *term) (cloudcontrollers.Run, error) {
				return cloudcontrollers.ServiceLB(t, 1, cloudcontrollers.Classes{Default: true})
			},
		},
		"route_controller FailedToCreateRoute": {
			fresh, func(t *term) (cloudcontrollers.Run, error) {
				return cloudcontrollers.NodeRoute(t, time.Minute, "10.0.0.0/16")
			},
		},
	} {
		t.Run(want, func(t *testing.T) {
			cloud := fake.New()
			if err := cloud.AddInstances(fake.Instance{Name: "new"}); err != nil {
				t.Fatal(err)
			}
			cloud.On(fake.CreateRoute).Fail(errors.New("quota exceeded"))
			tm := &term{
				client: kubefake.NewClientset(test.object), cloud: cloud.Provider(),
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
			run, err := test.build(tm)
			if err != nil {
				t.Fatal(err)
			}
			runController(t, tm, run)
			if got := <-recorded; got != want {
				t.Errorf("event %q, want %q", got, want)
			}
			for end := time.Now().Add(time.Minute); len(broadcasters()) > 0; {
				if time.Now().After(end) {
					t.Fatal(strings.Join(broadcasters(), "\n\n"))
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
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
