package registered_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/provider/fake"
)

// nodeAPI serves the Nodes of an API server, and records every request that may write.
type nodeAPI struct {
	*httptest.Server
	mu     sync.Mutex
	nodes  []string
	writes []string
}

func serveNodes(t *testing.T, nodes ...string) *nodeAPI {
	api := &nodeAPI{nodes: nodes}
	api.Server = httptest.NewServer(http.HandlerFunc(api.serve))
	t.Cleanup(api.CloseClientConnections)
	t.Cleanup(api.Close)
	return api
}

func (a *nodeAPI) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method != http.MethodGet:
		a.mu.Lock()
		a.writes = append(a.writes, r.Method+" "+r.URL.Path)
		a.mu.Unlock()
		_ = json.NewEncoder(w).Encode(node("written"))
	case r.URL.Query().Has("watch"):
		// A watch is resumed after its end, without another list.
		a.sendNodes(w, r.URL.Query().Get("resourceVersion"))
		<-r.Context().Done()
	case r.URL.Path == "/api/v1/nodes":
		list := corev1.NodeList{
			TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"},
		}
		a.mu.Lock()
		for _, name := range a.nodes {
			list.Items = append(list.Items, *node(name))
		}
		a.mu.Unlock()
		list.ResourceVersion = strconv.Itoa(len(list.Items))
		_ = json.NewEncoder(w).Encode(list)
	default:
		http.NotFound(w, r)
	}
}

// sendNodes begins a watch with the nodes that were created after a resource version, which is the
// number of nodes.
func (a *nodeAPI) sendNodes(w http.ResponseWriter, resourceVersion string) {
	after, _ := strconv.Atoi(resourceVersion) // none: from the beginning
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := after; i < len(a.nodes); i++ {
		created := node(a.nodes[i])
		created.ResourceVersion = strconv.Itoa(i + 1)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": created})
	}
	w.(http.Flusher).Flush()
}

func (a *nodeAPI) written() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.writes),
		func(w string) bool { return strings.HasSuffix(w, "/events") })
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
	}
}

// portOwner is a cloud that cannot exist twice in a process, because it keeps its port.
type portOwner struct {
	cloudprovider.Interface
	initialized int
	client      kubernetes.Interface
	nodes       corelisters.NodeLister
}

func (p *portOwner) Initialize(clients cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	p.initialized++
	p.client = clients.ClientOrDie("port-owner")
}

func (p *portOwner) SetInformers(factory informers.SharedInformerFactory) {
	p.nodes = factory.Core().V1().Nodes().Lister()
}

// write changes a node.
func (p *portOwner) write(t *testing.T, name string) error {
	_, err := p.client.CoreV1().Nodes().Update(t.Context(), node(name), metav1.UpdateOptions{})
	return err
}

// alone is the configuration of a Manager with one controller, which does nothing.
func alone(api *nodeAPI, elector election.Elector, p ccm.Provider) ccm.Params {
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"idle"}
	log := logr.Discard()
	return ccm.Params{
		Config: cfg, Providers: []ccm.Provider{p}, Elector: elector, Logger: &log,
		RESTConfig: &rest.Config{
			Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		},
		Controllers: []ccm.Controller{{
			Name: "idle",
			New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}), nil
			},
		}},
	}
}

func run(t *testing.T, p ccm.Params) *ccm.Manager {
	t.Helper()
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-m.Done()
		if err := m.Err(); err != nil {
			t.Errorf("the Manager ended with %v", err)
		}
	})
	return m
}

func TestShared_ThreeTerms_OneCloudServesAllOfThem(t *testing.T) {
	api := serveNodes(t, "node-1")
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	_ = port.Close()
	stop := make(chan struct{})
	defer close(stop)
	var made []*portOwner
	elector := ccmtest.NewManualElector()
	m := run(t, alone(api, elector, registered.Shared(registered.Factory("port-owner",
		func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			metrics, err := net.Listen("tcp", address)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(t.Context(), func() { _ = metrics.Close() })
			made = append(made, &portOwner{Interface: fake.New().Provider()})
			return made[len(made)-1], nil
		}), stop)))

	var want []string
	for term := uint64(1); term <= 3; term++ {
		elector.Lead()
		ccmtest.Eventually(t, "the term is ready",
			ccmtest.Status(m, func(s status.Manager) bool { return s.Ready && s.Term == term }))
		if len(made) != 1 || made[0].initialized != 1 {
			t.Fatalf("term %d: %d clouds, want one that was initialized once", term, len(made))
		}
		if err := made[0].write(t, "led"); err != nil {
			t.Errorf("term %d: a write of the cloud failed: %v", term, err)
		}
		want = append(want, "PUT /api/v1/nodes/led")
		name := api.nodes[len(api.nodes)-1]
		ccmtest.Eventually(t, "the cloud's lister has "+name,
			func(context.Context) (*corev1.Node, error) { return made[0].nodes.Get(name) })

		elector.Lose(nil)
		elector.WaitReleased(t)
		if err := made[0].write(t, "late"); !errors.Is(err, election.ErrLost) {
			t.Errorf("after term %d a write returned %v, want %v", term, err,
				election.ErrLost)
		}
		api.mu.Lock()
		api.nodes = append(api.nodes, "node-after-"+name)
		api.mu.Unlock()
	}
	if got := api.written(); !slices.Equal(got, want) {
		t.Errorf("the API server received %q, want %q", got, want)
	}
}

// A cloud whose initialization did not complete is in an unknown state.
func TestShared_InitializePanics_LaterTermsFailWithTheReason(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	m := run(t, alone(serveNodes(t), &election.Alone{}, registered.Shared(
		registered.Factory("broken", func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return fake.New().Provider(fake.WithInitialize(
				func(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
					panic("port 9000 is in use")
				})), nil
		}), stop)))
	ccmtest.Eventually(t, "the first term has failed",
		ccmtest.Status(m, func(s status.Manager) bool {
			return strings.Contains(s.Reason, "port 9000 is in use")
		}))
	current := ccmtest.Eventually(t, "the second term has failed",
		ccmtest.Status(m,
			func(s status.Manager) bool { return s.Term == 2 && s.State == status.Degraded }))
	if !strings.Contains(current.Reason, "being initialized by term 1") {
		t.Errorf("the reason of the second term is %q", current.Reason)
	}
}

// The constructor may fail because its cloud is down.
func TestShared_ConstructorFails_IsCalledAgainInTheNextTerm(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	calls := 0
	m := run(t, alone(serveNodes(t), &election.Alone{}, registered.Shared(
		registered.Factory("late", func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			if calls++; calls == 1 {
				panic("the cloud is down")
			}
			return fake.New().Provider(), nil
		}), stop)))
	ccmtest.Eventually(t, "the second term is ready",
		ccmtest.Status(m, func(s status.Manager) bool { return s.Term == 2 && s.Ready }))
}

func TestShared_SecondManager_IsRefused(t *testing.T) {
	api, stop := serveNodes(t), make(chan struct{})
	defer close(stop)
	p := registered.Shared(registered.Factory("one",
		func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return fake.New().Provider(), nil
		}), stop)
	first := run(t, alone(api, &election.Alone{}, p))
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(first))
	second := run(t, alone(api, &election.Alone{}, p))
	current := ccmtest.Eventually(t, "the Manager is degraded",
		ccmtest.State(second, status.Degraded))
	if !strings.Contains(current.Reason, "give each Manager a provider of its own") {
		t.Errorf("the second Manager's reason is %q", current.Reason)
	}
}

// noServer returns clients of an API server that does not exist.
type noServer struct {
	cloudprovider.ControllerClientBuilder
}

func (noServer) Config(string) (*rest.Config, error) {
	return &rest.Config{Host: "http://127.0.0.1:1"}, nil
}

// termEnv returns the environment of a term that records the calls to it.
func termEnv(number uint64) (env ccm.ProviderEnv, received func() []string) {
	var all []string
	events := record.NewFakeRecorder(10)
	env = ccm.ProviderEnv{
		Term: number, Clients: noServer{}, Logger: logr.Discard(),
		Fail: func(err error) { all = append(all, "fail "+err.Error()) },
		ReportTrouble: func(subject string, err error) {
			all = append(all, subject+" "+err.Error())
		},
		Recorder: func(component string) record.EventRecorder {
			all = append(all, "recorder of "+component)
			return events
		},
		Transport: func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				all = append(all, "request to "+r.URL.Host)
				return next.RoundTrip(r)
			})
		},
	}
	return env, func() []string {
		for len(events.Events) > 0 {
			all = append(all, <-events.Events)
		}
		return all
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestShared_EnvironmentOfTheFirstTerm_ActsForTheCurrentTerm(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	var built ccm.ProviderEnv
	shared := registered.Shared(registered.Factory("acme",
		func(env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			built = env
			return fake.New().Provider(), nil
		}), stop)
	// The cloud takes these once, and keeps them.
	var client http.RoundTripper
	var recorder record.EventRecorder
	answered := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
	})
	want := []string{
		"request to acme.example", "fail revoked", "quota exceeded", "recorder of acme",
		"recorder of acme", "recorder of acme", "Normal One first", "Normal Two 2nd",
		"Normal Three 3rd map[a:b]",
	}
	for number := uint64(1); number <= 3; number++ {
		env, received := termEnv(number)
		if _, err := shared.New(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		if number == 1 {
			client, recorder = built.Transport(answered), built.Recorder("acme")
		}
		resp, err := client.RoundTrip(
			httptest.NewRequest(http.MethodGet, "http://acme.example/", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		built.Fail(errors.New("revoked"))
		built.ReportTrouble("quota", errors.New("exceeded"))
		recorder.Event(node("n"), corev1.EventTypeNormal, "One", "first")
		recorder.Eventf(node("n"), corev1.EventTypeNormal, "Two", "%dnd", 2)
		recorder.AnnotatedEventf(node("n"), map[string]string{"a": "b"}, corev1.EventTypeNormal,
			"Three", "%drd", 3)
		if got := received(); !slices.Equal(got, want) {
			t.Errorf("term %d received %q, want %q", number, got, want)
		}
	}
}

// extended are the interfaces that a cloud may have beside cloudprovider.Interface.
type extended struct {
	cloudprovider.Interface
	cloudprovider.PVLabeler
	ccm.ObjectReporter
	ccm.ClusterCleaner
}

type reporter struct{}

func (reporter) LoadBalancerStatus() []status.LoadBalancer {
	return []status.LoadBalancer{{Service: "web"}}
}

func (reporter) NodeStatus() []status.Node { return []status.Node{{Name: "node-1"}} }

type cleaner struct{}

func (cleaner) CleanUpCluster(_ context.Context, uid string) ([]string, error) {
	return []string{"left of " + uid}, nil
}

func TestShared_OptionalInterfaces_AreThoseOfTheCloud(t *testing.T) {
	inner := fake.New().Provider()
	labeler := inner.(cloudprovider.PVLabeler)
	bare := struct{ cloudprovider.Interface }{inner}
	for name, cloud := range map[string]cloudprovider.Interface{
		"none": bare,
		"volumes": struct {
			cloudprovider.Interface
			cloudprovider.PVLabeler
		}{bare, labeler},
		"reports": struct {
			cloudprovider.Interface
			ccm.ObjectReporter
		}{bare, reporter{}},
		"cleans": struct {
			cloudprovider.Interface
			ccm.ClusterCleaner
		}{bare, cleaner{}},
		"all": extended{bare, labeler, reporter{}, cleaner{}},
	} {
		t.Run(name, func(t *testing.T) {
			stop := make(chan struct{})
			defer close(stop)
			env, _ := termEnv(1)
			view, err := registered.Shared(registered.Factory("acme",
				func(ccm.ProviderEnv) (cloudprovider.Interface, error) { return cloud, nil },
			), stop).New(t.Context(), env)
			if err != nil {
				t.Fatal(err)
			}
			_, want := cloud.(cloudprovider.PVLabeler)
			if _, got := view.(cloudprovider.PVLabeler); got != want {
				t.Errorf("PVLabeler: %v, of the cloud %v", got, want)
			}
			reports, want := cloud.(ccm.ObjectReporter)
			got, ok := view.(ccm.ObjectReporter)
			if ok != want {
				t.Errorf("ObjectReporter: %v, of the cloud %v", ok, want)
			}
			if ok && want && (got.NodeStatus()[0] != reports.NodeStatus()[0] ||
				got.LoadBalancerStatus()[0].Service != "web") {
				t.Errorf("the view reports %v, %v", got.NodeStatus(), got.LoadBalancerStatus())
			}
			left, err := view.(ccm.ClusterCleaner).CleanUpCluster(t.Context(), "6a4b")
			if _, want = cloud.(ccm.ClusterCleaner); want {
				if err != nil || !slices.Equal(left, []string{"left of 6a4b"}) {
					t.Errorf("CleanUpCluster returned %q, %v", left, err)
				}
			} else if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("CleanUpCluster returned %v, want ErrUnsupported", err)
			}
			instances, _ := view.InstancesV2()
			if _, ok := instances.(nodeipam.PodCIDRReporter); !ok {
				t.Error("the pod ranges of the cloud are not reported")
			}
		})
	}
}
