package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/provider/fake"
)

// noServer returns clients of an API server that does not exist. The children of these tests send
// no requests to it.
type noServer struct{}

func (noServer) Config(string) (*rest.Config, error) {
	return &rest.Config{Host: "http://127.0.0.1:1"}, nil
}

func (n noServer) Client(name string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(n.ConfigOrDie(name))
}

func (n noServer) ConfigOrDie(name string) *rest.Config {
	config, _ := n.Config(name)
	return config
}

func (n noServer) ClientOrDie(name string) kubernetes.Interface {
	client, err := n.Client(name)
	if err != nil {
		panic(err)
	}
	return client
}

// term is a term without a Manager.
type term struct {
	env      ccm.ProviderEnv
	failed   chan error
	troubles chan error
	lost     chan struct{}
	registry *prometheus.Registry
	// stop ends the term in order.
	stop func()
	// outside counts the processes that may act for the term.
	outside atomic.Int64
}

func newTerm() *term {
	t := &term{
		failed: make(chan error, 10), troubles: make(chan error, 10),
		lost: make(chan struct{}), registry: prometheus.NewRegistry(),
	}
	t.env = ccm.ProviderEnv{
		Config: ccm.DefaultConfig(), Manager: "m", Logger: logr.Discard(), Clients: noServer{},
		Registerer: t.registry,
		Fail:       func(err error) { t.failed <- err },
		Leadership: ccm.Leadership{Lost: t.lost, Begin: func(string) (func(), error) {
			t.outside.Add(1)
			return func() { t.outside.Add(-1) }, nil
		}},
		ReportTrouble: func(_ string, cause error) { t.troubles <- cause },
	}
	return t
}

// open starts the provider of a child with a cloud, and stops it at the end of the test.
func (t *term) open(
	tb testing.TB, cloud *fake.Cloud, more ...string,
) (cloudprovider.Interface, error) {
	tb.Helper()
	server := httptest.NewServer(cloud.Handler())
	tb.Cleanup(server.Close)
	got, err := t.start(tb, process.Options{
		Name: "remote", Args: append([]string{server.URL}, more...),
	})
	tb.Cleanup(cloud.ClearFaults)
	return got, err
}

// start starts a provider, and stops it at the end of the test.
func (t *term) start(tb testing.TB, o process.Options) (cloudprovider.Interface, error) {
	tb.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	t.stop = func() { cancel(ccm.ErrStopped) }
	got, err := process.Provider(o).New(ctx, t.env)
	tb.Cleanup(func() {
		t.stop()
		if closer, ok := got.(interface{ Close() error }); ok {
			if err := closer.Close(); err != nil {
				tb.Error(err)
			}
		}
		if left := t.outside.Load(); left != 0 {
			tb.Errorf("%d processes are left after the term", left)
		}
	})
	return got, err
}

func openChild(
	tb testing.TB, cloud *fake.Cloud, more ...string,
) (cloudprovider.Interface, *term) {
	tb.Helper()
	opened := newTerm()
	got, err := opened.open(tb, cloud, more...)
	if err != nil {
		tb.Fatal(err)
	}
	return got, opened
}

// interfaces returns the interfaces of a provider whose methods are calls to its cloud.
func interfaces() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[cloudprovider.InstancesV2](), reflect.TypeFor[cloudprovider.Instances](),
		reflect.TypeFor[cloudprovider.Zones](), reflect.TypeFor[cloudprovider.LoadBalancer](),
		reflect.TypeFor[cloudprovider.Routes](), reflect.TypeFor[cloudprovider.Clusters](),
		reflect.TypeFor[cloudprovider.PVLabeler](),
	}
}

// serving returns the implementation of an interface.
func serving(cloud cloudprovider.Interface, iface reflect.Type) (reflect.Value, bool) {
	if iface.Name() == "PVLabeler" {
		labeler, ok := cloud.(cloudprovider.PVLabeler)
		return reflect.ValueOf(labeler), ok
	}
	got := reflect.ValueOf(cloud).MethodByName(iface.Name()).Call(nil)
	return got[0], got[1].Bool()
}

// methods returns the methods of an interface: those that create first, those that delete last.
func methods(iface reflect.Type) []string {
	var names []string
	for n := range iface.NumMethod() {
		names = append(names, iface.Method(n).Name)
	}
	rank := func(name string) int {
		switch {
		case strings.Contains(name, "Delete"):
			return 2
		case strings.HasPrefix(name, "Create"), strings.HasPrefix(name, "Ensure"):
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// invoke calls a method with arguments for the instance node-1.
func invoke(
	ctx context.Context, cloud cloudprovider.Interface, iface reflect.Type, method string,
) (results []any, err error) {
	implementation, ok := serving(cloud, iface)
	if !ok {
		return nil, fmt.Errorf("the provider does not serve %s", iface.Name())
	}
	const id = "fake://region-1/node-1"
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"a": "b"}},
		Spec:       v1.NodeSpec{ProviderID: id},
		Status: v1.NodeStatus{Capacity: v1.ResourceList{
			v1.ResourceMemory: resource.MustParse("1500Mi"),
		}},
	}
	service := ccmtest.LoadBalancerService("web")
	service.UID = "6a4b"
	call := implementation.MethodByName(method)
	args := make([]reflect.Value, 0, call.Type().NumIn())
	for n := range call.Type().NumIn() {
		var value any
		switch call.Type().In(n) {
		case reflect.TypeFor[context.Context]():
			value = ctx
		case reflect.TypeFor[*v1.Node]():
			value = node
		case reflect.TypeFor[[]*v1.Node]():
			value = []*v1.Node{node}
		case reflect.TypeFor[*v1.Service]():
			value = service
		case reflect.TypeFor[types.NodeName]():
			value = types.NodeName("node-1")
		case reflect.TypeFor[*cloudprovider.Route]():
			value = &cloudprovider.Route{
				Name: "r", TargetNode: "node-1", DestinationCIDR: "10.1.0.0/24",
			}
		case reflect.TypeFor[*v1.PersistentVolume]():
			value = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}
		case reflect.TypeFor[[]byte]():
			value = []byte("key")
		case reflect.TypeFor[string]():
			value = "kubernetes"
			if strings.HasSuffix(method, "ProviderID") {
				value = id
			}
		}
		args = append(args, reflect.ValueOf(value))
	}
	for _, result := range call.Call(args) {
		if result.Type() != reflect.TypeFor[error]() {
			results = append(results, result.Interface())
		} else if !result.IsNil() {
			err = result.Interface().(error)
		}
	}
	return results, err
}

func newFakeCloud(tb testing.TB) *fake.Cloud {
	tb.Helper()
	cloud := fake.New(fake.WithCluster("kubernetes", "10.0.0.1"), fake.WithRouteNodeAddresses())
	if err := cloud.AddInstances(fake.Instance{
		Name: "node-1", AdditionalLabels: map[string]string{"rack": "7"},
	}); err != nil {
		tb.Fatal(err)
	}
	return cloud
}

func TestCloud_EachMethod_ReturnsWhatItReturnsInProcess(t *testing.T) {
	t.Parallel()
	here := newFakeCloud(t)
	inProcess, cloud := here.Provider(), newFakeCloud(t)
	inChild, _ := openChild(t, cloud)
	if got := inChild.ProviderName(); got != "fake" || !inChild.HasClusterID() {
		t.Errorf("name %q, cluster ID %v", got, inChild.HasClusterID())
	}
	for _, iface := range interfaces() {
		// The second round tests absent load balancers and routes.
		for range 2 {
			for _, method := range methods(iface) {
				want, wantErr := invoke(t.Context(), inProcess, iface, method)
				got, err := invoke(t.Context(), inChild, iface, method)
				if !apiequality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s: got %v, in process %v", method, got, want)
				}
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("%s: error %v, in process %v", method, err, wantErr)
				}
			}
		}
	}
	if got, want := calls(cloud), calls(here); !slices.Equal(got, want) {
		t.Errorf("the cloud of the child received\n%q\nthat in process\n%q", got, want)
	}
}

// calls returns the calls that a cloud has received after Initialize.
func calls(cloud *fake.Cloud) (all []string) {
	for _, call := range cloud.Calls() {
		if call.Interface != "Interface" && call.Interface != "InformerUser" {
			all = append(all, fmt.Sprint(call.Method, " ", call.Object, " ", call.Err))
		}
	}
	return all
}

func TestCloud_EachMethodThatFails_KeepsErrorsThatCallersCompare(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t)
	inChild, _ := openChild(t, cloud)
	for _, sent := range []error{
		cloudprovider.InstanceNotFound, cloudprovider.NotImplemented,
		cloudprovider.ImplementedElsewhere, context.DeadlineExceeded,
	} {
		clearFault := cloud.On().Fail(sent)
		for _, iface := range interfaces() {
			for _, method := range methods(iface) {
				_, err := invoke(t.Context(), inChild, iface, method)
				if method != "GetLoadBalancerName" && err != sent {
					t.Errorf("%s: error %#v, want %#v", method, err, sent)
				}
			}
		}
		clearFault()
	}
	cloud.On().Fail(fmt.Errorf("create: %w", api.NewRetryError("busy", time.Minute)))
	_, err := invoke(t.Context(), inChild, reflect.TypeFor[cloudprovider.LoadBalancer](),
		"EnsureLoadBalancer")
	retry, ok := errors.AsType[*api.RetryError](err)
	if !ok || retry.RetryAfter() != time.Minute || err.Error() != "create: busy" {
		t.Errorf("error %#v, want a RetryError after a minute", err)
	}
}

func TestCloud_InterfacesAreThoseOfTheProvider(t *testing.T) {
	t.Parallel()
	for name, without := range map[string][]fake.Interface{
		"all":        nil,
		"V2 only":    {"Instances", "Zones", "PVLabeler", "Clusters"},
		"V1 only":    {"InstancesV2", "LoadBalancer", "Routes"},
		"no cluster": {"InformerUser"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inChild, _ := openChild(t, fake.New(fake.Without(without...)))
			for _, iface := range interfaces() {
				_, got := serving(inChild, iface)
				if want := !slices.Contains(without, fake.Interface(iface.Name())); got != want {
					t.Errorf("%s is served: %v, want %v", iface.Name(), got, want)
				}
			}
		})
	}
}

// offer lists the interfaces that callers find beside cloudprovider.Interface.
type offer struct {
	Labels, Reports, Cleans, HasPodCIDRs bool

	Left, PodCIDRs       []string
	CleanErr, PodCIDRErr string

	HasEndpoints, Wants, WantsPlain bool
	Ensured                         *v1.LoadBalancerStatus
	UpdateErr                       string
}

// offerEndpoints calls the methods of an EndpointBalancer.
func (o *offer) offerEndpoints(t *testing.T, cloud cloudprovider.Interface) {
	t.Helper()
	lb, _ := cloud.LoadBalancer()
	balancer, ok := lb.(ccm.EndpointBalancer)
	if o.HasEndpoints = ok; !ok {
		return
	}
	service := ccmtest.LoadBalancerService("web")
	o.WantsPlain = balancer.WantsEndpoints(service)
	service.Annotations = map[string]string{"members": "endpoints"}
	o.Wants = balancer.WantsEndpoints(service)
	nodes := []*v1.Node{ccmtest.ReadyNode("node-1")}
	endpoints := []*discoveryv1.EndpointSlice{
		{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}},
		{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.2"}}}},
	}
	status, err := balancer.EnsureEndpointLoadBalancer(t.Context(), "c", service, nodes, endpoints)
	if err != nil {
		t.Error(err)
	}
	o.Ensured = status
	o.UpdateErr = fmt.Sprint(balancer.UpdateEndpointLoadBalancer(t.Context(), "c", service, nodes,
		endpoints))
}

func offerOf(t *testing.T, cloud cloudprovider.Interface) (o offer) {
	t.Helper()
	_, o.Labels = cloud.(cloudprovider.PVLabeler)
	_, o.Reports = cloud.(ccm.ObjectReporter)
	if cleaner, ok := cloud.(ccm.ClusterCleaner); ok {
		left, err := cleaner.CleanUpCluster(t.Context(), "6a4b")
		// A view always has the method, as the Cloud of a Term.
		if o.Cleans = !errors.Is(err, errors.ErrUnsupported); o.Cleans {
			o.Left, o.CleanErr = left, fmt.Sprint(err)
		}
	}
	instances, _ := cloud.InstancesV2()
	var reporter nodeipam.PodCIDRReporter
	if reporter, o.HasPodCIDRs = instances.(nodeipam.PodCIDRReporter); o.HasPodCIDRs {
		node := ccmtest.ReadyNode("node-1")
		cidrs, err := reporter.PodCIDRs(t.Context(), node)
		o.PodCIDRs, o.PodCIDRErr = cidrs, fmt.Sprint(err)
	}
	o.offerEndpoints(t, cloud)
	return o
}

func TestCloud_OptionalInterfaces_AreThoseInProcess(t *testing.T) {
	t.Parallel()
	newCloud := func() *fake.Cloud {
		cloud := fake.New()
		if err := cloud.AddInstances(fake.Instance{
			Name: "node-1", PodCIDRs: []string{"10.1.0.0/24", "fd00:1::/64"},
		}); err != nil {
			t.Fatal(err)
		}
		return cloud
	}
	for name, vary := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := offerOf(t, vary(newCloud().Provider()))
			inChild, _ := openChild(t, newCloud(), name)
			if got := offerOf(t, inChild); !reflect.DeepEqual(got, want) {
				t.Errorf("the child offers\n%+v\nin process\n%+v", got, want)
			}
		})
	}
}

func TestCloud_InterfaceThatAppearsInInitialize_IsServed(t *testing.T) {
	t.Parallel()
	inChild, _ := openChild(t, newFakeCloud(t), "late")
	inChild.Initialize(nil, nil)
	balancer, ok := inChild.LoadBalancer()
	if !ok {
		t.Fatal("LoadBalancer is not served")
	}
	service := ccmtest.LoadBalancerService("web")
	service.UID = "6a4b"
	if _, err := balancer.EnsureLoadBalancer(t.Context(), "kubernetes", service,
		nil); err != nil {
		t.Error(err)
	}
}

func TestCloud_CallAfterTheStop_IsRefused(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t)
	inChild, opened := openChild(t, cloud, "calls after its stop")
	inChild.Initialize(nil, nil)
	instances, _ := inChild.InstancesV2()
	opened.stop()
	ccmtest.Eventually(t, "the child has received the stop",
		ccmtest.Called(cloud, fake.CallFilter{
			Method: "AddSSHKeyToAllInstances", Object: "stopped",
		}.Matches))
	_, err := instances.InstanceExists(t.Context(), ccmtest.ReadyNode("node-1"))
	if err == nil {
		t.Error("a call after the stop was made")
	}
	if late := cloud.Calls(fake.CallFilter{Method: "InstanceExists"}.Matches); len(late) > 0 {
		t.Errorf("the cloud has received %v", late)
	}
}

func TestCloud_CallIsCanceled_ProviderSeesItAndOtherCallsContinue(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t)
	inChild, _ := openChild(t, cloud)
	instances, _ := inChild.InstancesV2()
	node := ccmtest.ReadyNode("node-1")
	release := cloud.On("InstanceMetadata").Hang()
	for name, want := range map[string]error{
		"canceled": context.Canceled, "deadline": context.DeadlineExceeded,
	} {
		cloud.ResetCalls()
		ctx, cancel := context.WithCancel(t.Context())
		if want == context.DeadlineExceeded {
			ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		}
		result := make(chan error, 1)
		go func() {
			_, err := instances.InstanceMetadata(ctx, node)
			result <- err
		}()
		ccmtest.Eventually(t, "the call hangs", ccmtest.Called(cloud, fake.CallFilter{
			Method: "InstanceMetadata",
		}.Matches))
		if exists, err := instances.InstanceExists(t.Context(), node); err != nil || !exists {
			t.Errorf("%s: a call beside it returned %v, %v", name, exists, err)
		}
		if want == context.Canceled {
			cancel()
		}
		if err := <-result; !errors.Is(err, want) {
			t.Errorf("%s: error %v", name, err)
		}
		cancel()
		ccmtest.Eventually(t, "the cloud's call ends", ccmtest.Called(cloud, fake.CallFilter{
			Method: "InstanceMetadata", Finished: true,
		}.Matches))
	}
	release()
	if _, err := instances.InstanceMetadata(t.Context(), node); err != nil {
		t.Error(err)
	}
}

func TestCloud_PanicOfTheProvider_IsAPanicInTheHost(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t)
	inChild, _ := openChild(t, cloud)
	cloud.On("ListRoutes").Times(1).Panic("index out of range")
	panicked := func() (value any) {
		defer func() { value = recover() }()
		_, _ = invoke(t.Context(), inChild, reflect.TypeFor[cloudprovider.Routes](), "ListRoutes")
		return nil
	}
	if got := panicked(); got != "index out of range" {
		t.Errorf("panic %v", got)
	}
	if got := panicked(); got != nil {
		t.Errorf("panic %v after the fault", got)
	}
}

func TestProvider_ChildGetsTheWholeConfigurationAndTheVerbosity(t *testing.T) {
	t.Parallel()
	opened := newTerm()
	want := description{
		Config: ccm.DefaultConfig(), ConfigFile: "/etc/cloud.conf", Identity: "replica",
		Manager: "m", Owner: "fleet/cluster", RequireOwnerMark: true, Term: 7, IsVerbose: true,
	}
	want.Config.ClusterCIDR = "10.244.0.0/16,fd00::/64"
	want.Config.CloudProvider.ConfigFile = want.ConfigFile
	want.Config.Node.StatusUpdateFrequency.Duration = 77 * time.Second
	opened.env.Config, opened.env.Identity, opened.env.Term = want.Config, want.Identity, want.Term
	opened.env.Owner, opened.env.RequireOwnerMark = want.Owner, want.RequireOwnerMark
	opened.env.Logger = funcr.New(func(string, string) {}, funcr.Options{Verbosity: 3})
	if _, err := opened.open(t, fake.New(), "describes"); err != nil {
		t.Fatal(err)
	}
	got := opened.description(t)
	got.Environment = nil
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("the child has\n%+v\nwant\n%+v", got, want)
	}
}

// description returns the trouble that a child reports to describe itself.
func (t *term) description(tb testing.TB) (got description) {
	tb.Helper()
	if err := json.Unmarshal([]byte((<-t.troubles).Error()), &got); err != nil {
		tb.Fatal(err)
	}
	return got
}

func TestProvider_WithEnv_ChildHasNothingElse(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(fake.New().Handler())
	t.Cleanup(server.Close)
	opened := newTerm()
	want := []string{"ACME_REGION=north", "ACME_TOKEN=a=b"}
	if _, err := opened.start(t, process.Options{
		Name: "remote", Args: []string{server.URL, "describes"}, Env: want,
	}); err != nil {
		t.Fatal(err)
	}
	if got := opened.description(t).Environment; !slices.Equal(got, want) {
		t.Errorf("the child has the environment %q, want %q", got, want)
	}
}

// The program is a script that becomes the test binary, so its process is another program's.
func TestProvider_WithPath_ProgramServesTheProvider(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newFakeCloud(t).Handler())
	t.Cleanup(server.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "acme")
	script := "#!/bin/sh\nACME_REGION=of-the-script exec '" + self + "' \"$1\" describes\n"
	// A process that begins meanwhile would have the file open, which then cannot be run.
	syscall.ForkLock.RLock()
	err = os.WriteFile(path, []byte(script), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	opened := newTerm()
	inChild, err := opened.start(t, process.Options{
		Name: "remote", Path: path, Args: []string{server.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := opened.description(t).Environment; !slices.Contains(got,
		"ACME_REGION=of-the-script") {
		t.Errorf("the child has the environment %q, want that of the script", got)
	}
	instances, _ := inChild.InstancesV2()
	if exists, err := instances.InstanceExists(t.Context(),
		ccmtest.ReadyNode("node-1")); err != nil || !exists {
		t.Errorf("InstanceExists returned %v, %v", exists, err)
	}
}

func TestProvider_OutputOfTheChild_IsLoggedWithItsNameAndStream(t *testing.T) {
	t.Parallel()
	opened := newTerm()
	var mu sync.Mutex
	var logged []string
	opened.env.Logger = funcr.New(func(name, line string) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, name+" "+line)
	}, funcr.Options{}).WithName("acme") // as a Manager does
	_, err := opened.start(t, process.Options{
		Name: "acme", Path: "/bin/sh", Args: []string{"-c", "echo out; echo err >&2; exit 3"},
	})
	if err == nil {
		t.Fatal("the child was built")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`acme "level"=0 "msg"="out" "stream"="stdout"`,
		`acme "level"=0 "msg"="err" "stream"="stderr"`,
	} {
		if !slices.Contains(logged, want) {
			t.Errorf("logged %q, want %s", logged, want)
		}
	}
}

func TestProvider_ReportsObjects_HostHasThem(t *testing.T) {
	t.Parallel()
	inChild, _ := openChild(t, fake.New(), "reports")
	reporter, ok := inChild.(ccm.ObjectReporter)
	if !ok {
		t.Fatal("the cloud does not report objects")
	}
	want := reporting{}
	if got := reporter.LoadBalancerStatus(); !reflect.DeepEqual(got, want.LoadBalancerStatus()) {
		t.Errorf("load balancers %+v", got)
	}
	if got := reporter.NodeStatus(); !reflect.DeepEqual(got, want.NodeStatus()) {
		t.Errorf("nodes %+v", got)
	}
}

func TestProvider_ChildIsFrozen_ReportsTheLastObjects(t *testing.T) {
	t.Parallel()
	cloud := fake.New()
	inChild, _ := openChild(t, cloud, "reports")
	inChild.Initialize(nil, nil)
	reporter := inChild.(ccm.ObjectReporter)
	reporter.NodeStatus()
	if err := syscall.Kill(childOf(t, cloud), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if got := reporter.NodeStatus(); len(got) != 1 {
		t.Errorf("%d nodes, want the one of the last report", len(got))
	}
}

func TestProvider_MemoryOfTheChild_IsMeasuredWhileItLives(t *testing.T) {
	t.Parallel()
	opened := newTerm()
	t.Run("term", func(t *testing.T) {
		if _, err := opened.open(t, fake.New()); err != nil {
			t.Fatal(err)
		}
		families, err := opened.registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("gathered %v, %v", families, err)
		}
		series := families[0].GetMetric()[0]
		if got := fmt.Sprint(series.GetLabel()); families[0].GetName() !=
			"fxccm_provider_process_resident_memory_bytes" ||
			!strings.Contains(got, `value:"m"`) || !strings.Contains(got, `value:"remote"`) {
			t.Errorf("metric %s with labels %s", families[0].GetName(), got)
		}
		if got := series.GetGauge().GetValue(); got < 1<<20 {
			t.Errorf("the child has %v bytes", got)
		}
	})
	if families, err := opened.registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("after the term: %v, %v", families, err)
	}
}

func TestProvider_ChildCannotBeBuilt_ReturnsTheCauseAndLeavesNoProcess(t *testing.T) {
	t.Run("panic", func(t *testing.T) {
		opened := newTerm()
		defer func() {
			if got := recover(); got != "cannot begin" {
				t.Errorf("panic %v", got)
			}
			if left := opened.outside.Load(); left != 0 {
				t.Errorf("%d processes are left", left)
			}
		}()
		_, err := opened.open(t, fake.New(), "panics")
		t.Errorf("no panic, but %v", err)
	})
	t.Run("leadership is over", func(t *testing.T) {
		opened := newTerm()
		opened.env.Leadership.Begin = func(string) (func(), error) { return nil, ccm.ErrTermOver }
		if _, err := opened.open(t, fake.New()); !errors.Is(err, ccm.ErrTermOver) {
			t.Error(err)
		}
	})
	t.Run("in a child", func(t *testing.T) {
		t.Setenv("FXCCM_PROVIDER_PROCESS", "1")
		_, err := newTerm().open(t, fake.New())
		if err == nil || !strings.Contains(err.Error(), "process.Main") {
			t.Errorf("error %v, want one that names process.Main", err)
		}
	})
}

func TestProvider_LeadershipLostAfterTheChildHasClosedItsConnection_IsKilledAtOnce(t *testing.T) {
	t.Parallel()
	opened := newTerm()
	lose := sync.OnceFunc(func() { close(opened.lost) })
	opened.env.Logger = funcr.New(func(_, line string) {
		if strings.Contains(line, "Connection to the provider's process ended") {
			lose()
		}
	}, funcr.Options{Verbosity: 2})
	_, err := opened.start(t, process.Options{
		Name: "acme", Path: "/bin/sh", Args: []string{"-c", "exec 3>&-; exec sleep 1000"},
	})
	// A child that lives until the limit of its connection is killed with that cause.
	if err == nil || !strings.HasSuffix(err.Error(), "ended: signal: killed") {
		t.Errorf("the child ended with %v", err)
	}
	if len(opened.failed) > 0 {
		t.Errorf("the lost term failed: %v", <-opened.failed)
	}
}

func TestProvider_FailsByItself_EndsTheTermWithItsCause(t *testing.T) {
	t.Parallel()
	inChild, opened := openChild(t, fake.New(), "fails")
	inChild.Initialize(nil, nil)
	if err := <-opened.failed; !strings.Contains(err.Error(), "credentials were revoked") {
		t.Errorf("cause %v", err)
	}
}

// The children live in the group of a service, whose signals are for the host.
func TestProvider_ChildIsTerminated_Continues(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t)
	inChild, opened := openChild(t, cloud)
	inChild.Initialize(nil, nil)
	if err := syscall.Kill(childOf(t, cloud), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	zones, _ := inChild.Zones()
	if _, err := zones.GetZone(t.Context()); err != nil {
		t.Error(err)
	}
	if len(opened.failed) > 0 {
		t.Errorf("the term failed: %v", <-opened.failed)
	}
}
