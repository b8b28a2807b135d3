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
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/provider/registered"
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
		// A watch that has lasted is resumed, without another list.
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

// portOwner is a cloud that cannot exist twice in a process: it keeps its port.
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
func alone(api *nodeAPI, elector ccm.Elector, p ccm.Provider) ccm.Params {
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
			ccmtest.Status(m, func(s ccm.Status) bool { return s.Ready && s.Term == term }))
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
		if err := made[0].write(t, "late"); !errors.Is(err, ccm.ErrLeadershipLost) {
			t.Errorf("after term %d a write returned %v, want %v", term, err,
				ccm.ErrLeadershipLost)
		}
		api.mu.Lock()
		api.nodes = append(api.nodes, "node-after-"+name)
		api.mu.Unlock()
	}
	if got := api.written(); !slices.Equal(got, want) {
		t.Errorf("the API server received %q, want %q", got, want)
	}
}

// A cloud that was not initialized to the end is in an unknown state.
func TestShared_InitializePanics_LaterTermsFailWithTheReason(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	m := run(t, alone(serveNodes(t), ccm.AlwaysLead(), registered.Shared(
		registered.Factory("broken", func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return fake.New().Provider(fake.WithInitialize(
				func(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
					panic("port 9000 is in use")
				})), nil
		}), stop)))
	ccmtest.Eventually(t, "the first term has failed",
		ccmtest.Status(m,
			func(s ccm.Status) bool { return strings.Contains(s.Reason, "port 9000 is in use") }))
	status := ccmtest.Eventually(t, "the second term has failed",
		ccmtest.Status(m,
			func(s ccm.Status) bool { return s.Term == 2 && s.State == ccm.StateDegraded }))
	if !strings.Contains(status.Reason, "being initialized by term 1") {
		t.Errorf("the reason of the second term is %q", status.Reason)
	}
}

// The constructor may fail because its cloud is down.
func TestShared_ConstructorFails_IsCalledAgainInTheNextTerm(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	calls := 0
	m := run(t, alone(serveNodes(t), ccm.AlwaysLead(), registered.Shared(
		registered.Factory("late", func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			if calls++; calls == 1 {
				panic("the cloud is down")
			}
			return fake.New().Provider(), nil
		}), stop)))
	ccmtest.Eventually(t, "the second term is ready",
		ccmtest.Status(m, func(s ccm.Status) bool { return s.Term == 2 && s.Ready }))
}

func TestShared_SecondManager_IsRefused(t *testing.T) {
	api, stop := serveNodes(t), make(chan struct{})
	defer close(stop)
	p := registered.Shared(registered.Factory("one",
		func(ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return fake.New().Provider(), nil
		}), stop)
	first := run(t, alone(api, ccm.AlwaysLead(), p))
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(first))
	second := run(t, alone(api, ccm.AlwaysLead(), p))
	status := ccmtest.Eventually(t, "the Manager is degraded",
		ccmtest.State(second, ccm.StateDegraded))
	if !strings.Contains(status.Reason, "give each Manager a provider of its own") {
		t.Errorf("the second Manager's reason is %q", status.Reason)
	}
}
