package nodes_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	fakecloud "k8s.io/cloud-provider/fake"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/nodes"
)

func init() {
	// Upstream's pause after each error has a start time of the process, not of a fake clock.
	utilruntime.ErrorHandlers = nil
}

// A call is one that the cloud has received.
type call struct {
	method, node string
	at           time.Duration
}

// cloud has the instances of nodes. Its calls take time, and fail as a test wants.
type cloud struct {
	*fakecloud.Cloud
	epoch time.Time
	// lacks: the provider serves no instances. older: it has the older interfaces.
	lacks, older bool

	mu        sync.Mutex
	instances map[string]*cloudprovider.InstanceMetadata
	off       map[string]bool
	// took is how long each call takes, and fails the error of each, by method.
	took  map[string]time.Duration
	fails map[string]error
	calls []call
}

func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, !c.lacks && !c.older }
func (c *cloud) Instances() (cloudprovider.Instances, bool)     { return c.Cloud, c.older }

func (c *cloud) call(method string, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.mu.Lock()
	c.calls = append(c.calls, call{method, node.Name, time.Since(c.epoch)})
	took := c.took[method]
	c.mu.Unlock()
	time.Sleep(took)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[node.Name], c.fails[method]
}

func (c *cloud) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	found, err := c.call("exists", node)
	return found != nil, err
}

func (c *cloud) InstanceShutdown(_ context.Context, node *v1.Node) (bool, error) {
	_, err := c.call("shutdown", node)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off[node.Name], err
}

func (c *cloud) InstanceMetadata(
	_ context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	found, err := c.call("metadata", node)
	switch {
	case err != nil:
		return nil, err
	case found == nil && len(node.Spec.Taints) == 0:
		// Upstream's controller panics without metadata of an initialized node.
		return nil, cloudprovider.InstanceNotFound
	case found == nil:
		return nil, nil
	}
	answer := *found
	return &answer, nil
}

// world is a cluster with its cloud, on a fake clock.
type world struct {
	t        *testing.T
	upstream bool
	client   *fake.Clientset
	cloud    *cloud
	record   *nodes.Record
	// updateLabels, withoutRoutes and selector are settings of the controllers.
	updateLabels, withoutRoutes bool
	selector                    string
	// reported is the node about whose lookups the provider writes the events.
	reported string

	mu       sync.Mutex
	recorded []*v1.Event
	// failures are the lines of the log that are about errors.
	failures []string
	troubles map[string]bool
}

func inWorld(t *testing.T, upstream bool, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := &world{
			t: t, upstream: upstream, client: client, troubles: map[string]bool{},
			cloud: &cloud{
				Cloud: &fakecloud.Cloud{}, epoch: time.Now(),
				instances: map[string]*cloudprovider.InstanceMetadata{}, off: map[string]bool{},
				took: map[string]time.Duration{}, fails: map[string]error{},
			},
		}
		w.record = nodes.NewRecord(func(subject string, cause error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles[subject] = cause != nil
		})
		// On a fake clock many events have the same name, which client-go makes of the time.
		client.PrependReactor("create", "events",
			func(action clienttesting.Action) (bool, runtime.Object, error) {
				event := action.(clienttesting.CreateAction).GetObject().(*v1.Event)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.recorded = append(w.recorded, event)
				return true, event, nil
			})
		// This is the API server's answer if a JSON patch cannot be applied.
		client.PrependReactor("patch", "nodes",
			func(action clienttesting.Action) (bool, runtime.Object, error) {
				handled, node, err := clienttesting.ObjectReaction(client.Tracker())(action)
				if err != nil && !apierrors.IsNotFound(err) {
					err = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "",
						schema.GroupResource{}, "", err.Error(), 0, false)
				}
				return handled, node, err
			})
		// The tracker does not know the preconditions of a deletion.
		client.PrependReactor("delete", "nodes",
			func(action clienttesting.Action) (bool, runtime.Object, error) {
				deletion := action.(clienttesting.DeleteAction)
				wanted := deletion.GetDeleteOptions().Preconditions
				if now := w.get(deletion.GetName()); wanted != nil && now != nil &&
					*wanted.UID != now.UID {
					return true, nil, apierrors.NewConflict(v1.Resource("nodes"), now.Name, nil)
				}
				return false, nil, nil
			})
		test(w)
	})
}

// start runs both controllers, with a refresh every 5 minutes and a check every 5 seconds.
func (w *world) start() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), w.logger()))
	factory := informers.NewSharedInformerFactory(w.client, 0)
	broadcaster := events.New(w.client.CoreV1(), klog.Background())
	informer := factory.Core().V1().Nodes()
	var runs []func()
	if w.upstream {
		metrics := controllersmetrics.NewControllerManagerMetrics("test")
		c, err := nodecontroller.NewCloudNodeController(informer, w.client, w.cloud,
			5*time.Minute, 4, 4)
		if err == nil {
			runs = append(runs, func() { c.RunWithContext(ctx, metrics) })
			var l *nodelifecycle.CloudNodeLifecycleController
			l, err = nodelifecycle.NewCloudNodeLifecycleController(informer, w.client, w.cloud,
				5*time.Second, 4)
			runs = append(runs, func() { l.Run(ctx, metrics) })
		}
		if err != nil && !w.cloud.lacks {
			w.t.Fatal(err)
		}
	} else {
		selector, err := labels.Parse(w.selector)
		if err != nil {
			w.t.Fatal(err)
		}
		params := nodes.Params{
			Cloud: w.cloud, Selector: selector, Client: w.client.CoreV1(), Nodes: informer,
			Recorder: broadcaster.Recorder("test"), Record: w.record, Syncs: 4,
			Period: 5 * time.Minute,
		}
		c, err := nodes.New(params, nodes.Refresh{
			Syncs: 4, UpdateLabels: w.updateLabels, WithoutRoutes: w.withoutRoutes,
			IsReported: func(node string) bool { return node == w.reported },
		})
		if err != nil {
			w.t.Fatal(err)
		}
		runs = append(runs, func() { c.Run(ctx) })
		if nodes.Serve(w.cloud) {
			params.Period = 5 * time.Second
			runs = append(runs, func() { nodes.NewLifecycle(params).Run(ctx) })
		}
	}
	informer.Informer()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	var running sync.WaitGroup
	for _, run := range runs {
		running.Go(run)
	}
	synctest.Wait()
	return func() {
		cancel()
		running.Wait()
		broadcaster.Close()
		factory.Shutdown()
		time.Sleep(10 * time.Second) // upstream's workers end after Run
		synctest.Wait()
	}
}

// logger returns a logger that keeps the errors.
func (w *world) logger() klog.Logger {
	return funcr.New(func(_, line string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if strings.Contains(line, `"error"=`) {
			w.failures = append(w.failures, line)
		}
	}, funcr.Options{})
}

// failuresLogged returns how many lines of the log about an error have the text.
func (w *world) failuresLogged(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.failures {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// addInstance adds an instance with an address.
func (w *world) addInstance(name string, change ...func(*cloudprovider.InstanceMetadata)) {
	found := &cloudprovider.InstanceMetadata{
		ProviderID: "test://" + name, InstanceType: "m1.large", Zone: "zone-1", Region: "region-1",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
	}
	for _, f := range change {
		f(found)
	}
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	w.cloud.instances[name] = found
}

func (w *world) removeInstance(name string) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	delete(w.cloud.instances, name)
}

func (w *world) turnOn(name string) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	delete(w.cloud.off, name)
}

func (w *world) fail(method string, err error) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	w.cloud.fails[method] = err
}

// addNode adds a node that is an hour old, ready and initialized.
func (w *world) addNode(name string, change ...func(*v1.Node)) {
	w.t.Helper()
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name),
			Labels:            map[string]string{v1.LabelHostname: name},
			CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
		},
		Spec: v1.NodeSpec{ProviderID: "test://" + name},
		Status: v1.NodeStatus{
			Addresses:  []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(node)
	}
	if _, err := w.client.CoreV1().Nodes().Create(context.Background(), node,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func fresh(n *v1.Node) {
	n.Spec.ProviderID, n.CreationTimestamp = "", metav1.Now()
	n.Spec.Taints = []v1.Taint{
		{Key: "example.com/mine", Effect: v1.TaintEffectNoSchedule},
		{Key: api.TaintExternalCloudProvider, Effect: v1.TaintEffectNoSchedule, Value: "true"},
	}
}

func notReady(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionUnknown }

func young(n *v1.Node) { n.CreationTimestamp = metav1.Now() }

func (w *world) get(name string) *v1.Node {
	node, err := w.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("nodes"), "", name)
	if err != nil {
		return nil
	}
	return node.(*v1.Node)
}

func (w *world) change(name string, change func(*v1.Node)) {
	w.t.Helper()
	node := w.get(name).DeepCopy()
	change(node)
	if err := w.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), node,
		""); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("nodes"), "",
		name); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// taints returns the keys of a node's taints.
func (w *world) taints(name string) (keys []string) {
	for _, taint := range w.get(name).Spec.Taints {
		keys = append(keys, taint.Key)
	}
	return keys
}

func (w *world) isInitialized(name string) bool {
	return !slices.Contains(w.taints(name), api.TaintExternalCloudProvider)
}

func (w *world) addresses(name string) (all []string) {
	for _, a := range w.get(name).Status.Addresses {
		all = append(all, a.Address)
	}
	return all
}

// network returns status and reason of the condition NetworkUnavailable, or "".
func (w *world) network(name string) string {
	for _, c := range w.get(name).Status.Conditions {
		if c.Type == v1.NodeNetworkUnavailable {
			return fmt.Sprint(c.Status, " ", c.Reason)
		}
	}
	return ""
}

// count returns how many calls of a method there were.
func (w *world) count(method string) (n int) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	for _, c := range w.cloud.calls {
		if c.method == method {
			n++
		}
	}
	return n
}

// writes returns the requests that change nodes, such as "patch status".
func (w *world) writes() (all []string) {
	for _, action := range w.client.Actions() {
		if action.GetResource().Resource == "nodes" && slices.Contains(
			[]string{"patch", "update", "delete"}, action.GetVerb()) {
			all = append(all, strings.TrimSpace(action.GetVerb()+" "+action.GetSubresource()))
		}
	}
	return all
}

// events returns the events of a reason.
func (w *world) events(reason string) (messages []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.recorded {
		if e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// refuse lets requests to write nodes fail.
func (w *world) refuse(verb string, err error) {
	w.client.PrependReactor(verb, "nodes",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func (w *world) forbid(verb string) {
	w.refuse(verb, apierrors.NewForbidden(v1.Resource("nodes"), "node-1",
		fmt.Errorf("User \"ccm\" cannot %s resource \"nodes\"", verb)))
}

// deny lets an admission webhook deny requests to write nodes.
func (w *world) deny(verb string, code int32, reason metav1.StatusReason) {
	w.refuse(verb, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: `admission webhook "policy.example.com" denied the request: not on my watch`,
	}})
}

func (w *world) hasTrouble(subject string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.troubles[subject]
}
