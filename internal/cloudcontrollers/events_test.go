package cloudcontrollers_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// term has an API server in memory.
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

func TestUpstreamsControllers_EventsAreRecorded_WithoutBroadcastersOfClientGo(t *testing.T) {
	cloud := fake.New()
	if err := cloud.AddInstances(fake.Instance{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	cloud.On(fake.CreateRoute).Fail(errors.New("quota exceeded"))
	fresh := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "new"},
		Spec: v1.NodeSpec{PodCIDR: "10.0.1.0/24", PodCIDRs: []string{
			"10.0.1.0/24",
		}, Taints: []v1.Taint{{
			Key: cloudapi.TaintExternalCloudProvider, Effect: v1.TaintEffectNoSchedule,
		}}},
	}
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
	tm := &term{
		client: kubefake.NewClientset(fresh, gone, service), cloud: cloud.Provider(),
		metrics: controllersmetrics.NewControllerManagerMetrics("test"),
	}
	var mu sync.Mutex
	recorded := map[string]bool{}
	tm.client.PrependReactor("create", "events",
		func(action clienttesting.Action) (bool, kruntime.Object, error) {
			event := action.(clienttesting.CreateAction).GetObject().(*v1.Event)
			mu.Lock()
			defer mu.Unlock()
			recorded[event.Source.Component+" "+event.Reason] = true
			return true, event, nil
		})
	tm.informers = informers.NewSharedInformerFactory(tm.client, 0)
	runControllers(t, tm)

	for _, want := range []string{
		"cloud-node-controller Synced", "cloud-node-lifecycle-controller DeletingNode",
		"service-controller EnsuringLoadBalancer", "route_controller FailedToCreateRoute",
	} {
		eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return recorded[want]
		}, func() string {
			mu.Lock()
			defer mu.Unlock()
			return "no event " + want + " in " +
				strings.Join(slices.Sorted(maps.Keys(recorded)), ", ")
		})
	}
	eventually(t, func() bool { return len(broadcasters()) == 0 },
		func() string { return strings.Join(broadcasters(), "\n\n") })
}

// runControllers runs upstream's four controllers until the test ends.
func runControllers(t *testing.T, tm *term) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		tm.informers.Shutdown()
	})
	node, err1 := cloudcontrollers.CloudNode(tm, time.Minute, 1, 1)
	lifecycle, err2 := cloudcontrollers.CloudNodeLifecycle(tm, time.Minute, 1)
	balancers, err3 := cloudcontrollers.ServiceLB(tm, 1, cloudcontrollers.Classes{Default: true})
	routes, err4 := cloudcontrollers.NodeRoute(tm, time.Minute, "10.0.0.0/16")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	tm.informers.StartWithContext(ctx)
	tm.informers.WaitForCacheSyncWithContext(ctx)
	for _, run := range []cloudcontrollers.Run{node, lifecycle, balancers, routes} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// broadcasters are the stacks of goroutines of client-go's broadcasters.
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

func eventually(t *testing.T, holds func() bool, otherwise func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise())
		}
	}
}
