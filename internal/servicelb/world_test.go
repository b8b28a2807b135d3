package servicelb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	servicecontroller "k8s.io/cloud-provider/controllers/service"
	fakecloud "k8s.io/cloud-provider/fake"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/servicelb"
)

func init() {
	// Upstream's pause after each error has a start time of the process, not of a fake clock.
	utilruntime.ErrorHandlers = nil
}

// A call is one that the cloud has received.
type call struct {
	method, service string
	uid             types.UID
	nodes           string
	// endpoints are the addresses of the EndpointSlices.
	endpoints string
	class     string
	// labels and address are those of the Service that was passed.
	labels     map[string]string
	address    string
	begin, end time.Duration
	// finalized: the Service that was passed had the finalizer; wasFinalized: the API server's had.
	finalized, wasFinalized bool
}

// cloud is a cloudprovider.LoadBalancer whose calls take time, and fail as a test wants.
type cloud struct {
	epoch  time.Time
	client *fake.Clientset

	mu sync.Mutex
	// took is how long each call takes, by method.
	took map[string]time.Duration
	// answers are the errors of the next calls of a method.
	answers   map[string][]error
	calls     []call
	balancers map[types.UID]string
	// ipMode is that of the answers; "" if they have none.
	ipMode v1.LoadBalancerIPMode
	// hidesAddresses: the answers have no address.
	hidesAddresses bool
}

func newCloud(client *fake.Clientset) *cloud {
	return &cloud{
		epoch: time.Now(), client: client, took: map[string]time.Duration{},
		answers: map[string][]error{}, balancers: map[types.UID]string{},
		ipMode: v1.LoadBalancerIPModeVIP,
	}
}

func (c *cloud) call(
	ctx context.Context, method string, s *v1.Service, nodes []*v1.Node,
	endpoints ...*discoveryv1.EndpointSlice,
) error {
	var names []string
	for _, node := range nodes {
		text := node.Name
		for _, address := range node.Status.Addresses {
			text += "=" + address.Address
		}
		names = append(names, text)
	}
	slices.Sort(names)
	this := call{
		method: method, service: s.Name, uid: s.UID, nodes: strings.Join(names, " "),
		endpoints: addressesOf(endpoints),
		begin:     time.Since(c.epoch), finalized: servicehelper.HasLBFinalizer(s),
		labels: s.Labels, address: addressOf(s),
	}
	if now, err := c.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name,
		metav1.GetOptions{}); err == nil {
		this.wasFinalized = servicehelper.HasLBFinalizer(now)
	}
	if s.Spec.LoadBalancerClass != nil {
		this.class = *s.Spec.LoadBalancerClass
	}
	c.mu.Lock()
	took := c.took[method]
	var err error
	if all := c.answers[method]; len(all) > 0 {
		err, c.answers[method] = all[0], all[1:]
	}
	c.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		err = ctx.Err()
	}
	this.end = time.Since(c.epoch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, this)
	return err
}

func (c *cloud) status(uid types.UID) *v1.LoadBalancerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	address, ok := c.balancers[uid]
	if !ok || c.hidesAddresses {
		return &v1.LoadBalancerStatus{}
	}
	ingress := v1.LoadBalancerIngress{IP: address}
	if mode := c.ipMode; mode != "" {
		ingress.IPMode = &mode
	}
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{ingress}}
}

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, s *v1.Service) string {
	return s.Name
}

func (c *cloud) GetLoadBalancer(
	ctx context.Context, _ string, s *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	err := c.call(ctx, "get", s, nil)
	status := c.status(s.UID)
	return status, len(status.Ingress) > 0, err
}

func (c *cloud) EnsureLoadBalancer(
	ctx context.Context, _ string, s *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	if err := c.call(ctx, "ensure", s, nodes); err != nil {
		return nil, err
	}
	return c.serve(s), nil
}

func (c *cloud) serve(s *v1.Service) *v1.LoadBalancerStatus {
	c.mu.Lock()
	if c.balancers[s.UID] == "" {
		c.balancers[s.UID] = fmt.Sprintf("192.0.2.%d", len(c.balancers)+1)
	}
	c.mu.Unlock()
	return c.status(s.UID)
}

func (c *cloud) UpdateLoadBalancer(
	ctx context.Context, _ string, s *v1.Service, nodes []*v1.Node,
) error {
	return c.call(ctx, "update", s, nodes)
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *v1.Service) error {
	err := c.call(ctx, "delete", s, nil)
	if err == nil || ctx.Err() != nil { // the cloud ends a request whose caller has given up
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.balancers, s.UID)
	}
	return err
}

// asProvider is the cloud for upstream's controller.
type asProvider struct {
	*fakecloud.Cloud
	balancer cloudprovider.LoadBalancer
}

func (p asProvider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p.balancer, true }

// world is a cluster with its cloud, on a fake clock.
type world struct {
	t        *testing.T
	upstream bool
	client   *fake.Clientset
	cloud    *cloud
	nextUID  int
	// selector selects the nodes.
	selector string
	// wants: the provider is asked whether it wants endpoints. Nil: it cannot have them.
	wants func(*v1.Service) bool

	mu       sync.Mutex
	recorded []*v1.Event
	// failures are the lines of the log that are about errors.
	failures []string
	// troubles are the subjects that are reported.
	troubles map[string]bool
}

// inWorld runs a test in a world of its own, with one node.
func inWorld(t *testing.T, upstream bool, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := &world{
			t: t, upstream: upstream, client: client, cloud: newCloud(client),
			troubles: map[string]bool{},
		}
		// On a fake clock many events have the same name, which client-go makes of the time.
		client.PrependReactor("create", "events",
			func(action clienttesting.Action) (bool, runtime.Object, error) {
				event := action.(clienttesting.CreateAction).GetObject().(*v1.Event)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.recorded = append(w.recorded, event)
				return true, event, nil
			})
		addRules(client)
		w.addNode("node-1")
		test(w)
	})
}

// A manager is a running controller with its informers.
type manager struct {
	w    *world
	stop func()
}

// start runs a controller for these classes; with upstream the classes do not matter.
func (w *world) start(classes servicelb.Classes) *manager {
	w.t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), w.logger()))
	factory := informers.NewSharedInformerFactory(w.client, 0)
	broadcaster := events.New(w.client.CoreV1(), klog.Background())
	var run func()
	if w.upstream {
		c, err := servicecontroller.New(asProvider{&fakecloud.Cloud{}, w.cloud}, w.client,
			factory.Core().V1().Services(), factory.Core().V1().Nodes(), "cluster", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		run = func() { c.Run(ctx, 2, controllersmetrics.NewControllerManagerMetrics("test")) }
	} else {
		nodes, err := labels.Parse(w.selector)
		if err != nil {
			w.t.Fatal(err)
		}
		c, err := servicelb.New(servicelb.Params{
			Nodes:       nodes,
			ClusterName: "cluster", Cloud: w.balancer(), Classes: classes,
			Client: w.client.CoreV1(), Informers: factory, Endpoints: w.endpointInformers,
			Recorder: broadcaster.Recorder("service-controller"), Syncs: 2,
			Trouble: func(subject string, cause error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.troubles[subject] = cause != nil
			},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		run = func() { c.Run(ctx) }
	}
	factory.StartWithContext(ctx)
	done := make(chan struct{})
	go func() { defer close(done); run() }()
	w.wait(time.Second)
	m := &manager{w: w}
	m.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		broadcaster.Close()
		factory.Shutdown()
		synctest.Wait()
	})
	return m
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

var onlyDefault = servicelb.Classes{Default: true}

// wait lets time pass, and removes what the API server would have removed.
func (w *world) wait(d time.Duration) {
	for end := time.Now().Add(d); ; time.Sleep(max(100*time.Millisecond, d/100)) {
		synctest.Wait()
		all, err := w.client.CoreV1().Services("default").List(context.Background(),
			metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range all.Items {
			if s.DeletionTimestamp != nil && len(s.Finalizers) == 0 {
				_ = w.client.CoreV1().Services("default").Delete(context.Background(), s.Name,
					metav1.DeleteOptions{})
			}
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

func (w *world) addNode(name string, change ...func(*v1.Node)) {
	w.t.Helper()
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       v1.NodeSpec{ProviderID: "test://" + name},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue},
		}},
	}
	for _, f := range change {
		f(node)
	}
	if _, err := w.client.CoreV1().Nodes().Create(context.Background(), node,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) changeNode(name string, change func(*v1.Node)) {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err == nil {
		change(node)
		_, err = w.client.CoreV1().Nodes().Update(context.Background(), node,
			metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deleteNode(name string) {
	w.t.Helper()
	if err := w.client.CoreV1().Nodes().Delete(context.Background(), name,
		metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// add creates a Service of type LoadBalancer.
func (w *world) add(name string, change ...func(*v1.Service)) {
	w.t.Helper()
	w.nextUID++
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprint("uid-", w.nextUID)),
		},
		Spec: v1.ServiceSpec{
			Type:  v1.ServiceTypeLoadBalancer,
			Ports: []v1.ServicePort{{Port: 80, NodePort: 30080, Protocol: v1.ProtocolTCP}},
		},
	}
	for _, f := range change {
		f(s)
	}
	if _, err := w.client.CoreV1().Services("default").Create(context.Background(), s,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// get returns a Service, or nil.
func (w *world) get(name string) *v1.Service {
	s, err := w.client.CoreV1().Services("default").Get(context.Background(), name,
		metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return s
}

func (w *world) change(name string, change func(*v1.Service)) {
	w.t.Helper()
	s := w.get(name)
	change(s)
	if _, err := w.client.CoreV1().Services("default").Update(context.Background(), s,
		metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// delete deletes a Service as the API server does: while it has finalizers, it stays.
func (w *world) delete(name string) {
	w.t.Helper()
	now := metav1.Now()
	w.change(name, func(s *v1.Service) { s.DeletionTimestamp = &now })
	w.wait(0)
}

// vanish removes a Service, whatever finalizers it has.
func (w *world) vanish(name string) {
	w.t.Helper()
	if err := w.client.CoreV1().Services("default").Delete(context.Background(), name,
		metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func asClusterIP(s *v1.Service) {
	s.Spec.Type, s.Spec.LoadBalancerClass = v1.ServiceTypeClusterIP, nil
}

func ofClass(class string) func(*v1.Service) {
	return func(s *v1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = v1.ServiceTypeLoadBalancer, &class
	}
}

// calls returns the methods of the calls so far, and with nodes their nodes.
func (w *world) calls() (all []call) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	return slices.Clone(w.cloud.calls)
}

func (w *world) methods() (all []string) {
	for _, c := range w.calls() {
		all = append(all, c.method)
	}
	return all
}

func (w *world) forgetCalls() {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	w.cloud.calls = nil
	w.client.ClearActions()
}

// events returns the reasons of the events of a type, sorted.
func (w *world) events(kind string) (reasons []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.recorded {
		if e.Type == kind {
			reasons = append(reasons, e.Reason)
		}
	}
	slices.Sort(reasons)
	return reasons
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

func (w *world) hasTrouble(subject string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.troubles[subject]
}

// writes returns how many patches of Services there were.
func (w *world) writes() (n int) {
	for _, action := range w.client.Actions() {
		if action.Matches("patch", "services") || action.Matches("patch", "services/status") ||
			action.GetVerb() == "patch" && action.GetResource().Resource == "services" {
			n++
		}
	}
	return n
}

func (w *world) hasFinalizer(name string) bool {
	s := w.get(name)
	return s != nil && servicehelper.HasLBFinalizer(s)
}

func (w *world) address(name string) string { return addressOf(w.get(name)) }

func addressOf(s *v1.Service) string {
	if s == nil || len(s.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	return s.Status.LoadBalancer.Ingress[0].IP
}

// fail sets the errors of the next calls of a method.
func (w *world) fail(method string, errs ...error) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	w.cloud.answers[method] = errs
}

func (w *world) slow(method string, d time.Duration) {
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	w.cloud.took[method] = d
}

func retryIn(d time.Duration) error {
	return fmt.Errorf("load balancer a1b2: %w", api.NewRetryError("provisioning", d))
}
