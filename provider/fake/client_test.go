package fake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

func TestClient_WhenTheContextEnds_CancelsTheCallInTheCloud(t *testing.T) {
	calls := map[Method]func(context.Context, cloudprovider.Interface) error{
		EnsureLoadBalancer: func(ctx context.Context, p cloudprovider.Interface) error {
			return ensure(ctx, t, p)
		},
		InstanceExists: func(ctx context.Context, p cloudprovider.Interface) error {
			_, err := instancesOf(t, p).InstanceExists(ctx, nodeNamed("a"))
			return err
		},
	}
	for what, slow := range map[string]func(*Cloud){
		"a delay":   func(c *Cloud) { c.On().Delay(time.Hour) },
		"a hang":    func(c *Cloud) { c.On().Hang() },
		"a latency": func(c *Cloud) { c.SetLatency(time.Hour) },
	} {
		for m, call := range calls {
			cloud := New()
			p := dial(t, cloud).Provider()
			slow(cloud)
			ctx, cancel := context.WithCancel(t.Context())
			done := inBackground(func() error { return call(ctx, p) })
			if _, err := cloud.WaitForCall(within(t)); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %s answers %v", what, m, err)
			}
			got, err := cloud.WaitForCall(within(t), CallFilter{Method: m, Finished: true}.Matches)
			if err != nil || got.Err != context.Canceled.Error() || exists(cloud) {
				t.Errorf("%s: in the cloud it is %+v, %v, and the load balancer exists: %v", what,
					got, err, exists(cloud))
			}
		}
	}
}

func TestClient_WhenTheCallIgnoresItsContext_ItGoesOnInTheCloud(t *testing.T) {
	cloud := New()
	p := dial(t, cloud).Provider()
	release := cloud.On(EnsureLoadBalancer).IgnoringContext().Hang()
	ctx, cancel := context.WithCancel(t.Context())
	done := inBackground(func() error { return ensure(ctx, t, p) })
	if _, err := cloud.WaitForCall(within(t)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller gets %v", err)
	}
	if n := cloud.Stats().InFlight; n != 1 {
		t.Errorf("%d calls are in flight in the cloud, want 1", n)
	}
	release()
	if err := cloud.WaitUntil(within(t), func() bool { return exists(cloud) }); err != nil {
		t.Error(err)
	}
}

// roundTripper is a transport in between, as a fence is.
type roundTripper struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string
}

func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.seen = append(r.seen, req.Method+" "+req.URL.Path)
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

func (r *roundTripper) WrappedRoundTripper() http.RoundTripper { return r.next }

func TestClient_SendsAllThroughTheInjectedTransport_AndChangesAreNoGET(t *testing.T) {
	cloud := New(WithCluster("c", "192.0.2.1"))
	add(t, cloud, machine)
	between := &roundTripper{next: &http.Transport{}}
	client := dial(t, cloud, WithTransport(between))
	everyMethod(t.Context(), t, client.Provider())
	for m, op := range operations {
		want := "GET /v1/call/" + string(m)
		if op.mutating {
			want = "POST /v1/call/" + string(m)
		}
		if !slices.Contains(between.seen, want) {
			t.Errorf("the transport did not see %s", want)
		}
	}
	// The goroutines of the wrapped transport's connections would be found at the end of the tests.
	client.Close()
}

func TestClient_WhenTheTransportRefuses_ReturnsItsError(t *testing.T) {
	refused := errors.New("the term is over")
	cloud := New()
	over := false
	client := dial(t, cloud,
		WithTransport(transportFunc(func(req *http.Request) (*http.Response, error) {
			if over {
				return nil, refused
			}
			return http.DefaultTransport.RoundTrip(req)
		})))
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	over = true
	if err := ensure(t.Context(), t, client.Provider()); !errors.Is(err, refused) ||
		!strings.Contains(err.Error(), "EnsureLoadBalancer") {
		t.Errorf("the call answers %v", err)
	}
	web := serviceNamed("web")
	if name := balancersOf(t, client.Provider()).GetLoadBalancerName(t.Context(), "c",
		web); name != cloudprovider.DefaultLoadBalancerName(web) {
		t.Errorf("without the cloud the name is %q", name)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestClientClose_EndsCallsInFlightAndRefusesOthers(t *testing.T) {
	cloud := New()
	client := dial(t, cloud)
	cloud.On(SetInformers).Hang()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It has no context of its own.
		client.Provider().(cloudprovider.InformerUser).SetInformers(nil)
	}()
	if _, err := cloud.WaitForCall(within(t)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	client.Close()
	<-done
	if err := ensure(t.Context(), t, client.Provider()); !errors.Is(err, errClientClosed) {
		t.Errorf("after Close a call answers %v", err)
	}
}

func TestDial_WhenThereIsNoFakeCloud_SaysSo(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken/v1/cloud" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, "<html>")
	}))
	defer other.Close()
	for address, why := range map[string]string{
		"":                    "is not an address",
		"127.0.0.1:80":        "is not an address",
		"ftp://127.0.0.1":     "is not an address",
		"http://%zz":          "is not an address",
		"http://127.0.0.1:1":  "refused",
		other.URL:             "not that of a fake cloud",
		other.URL + "/broken": "418",
	} {
		client, err := Dial(within(t), address)
		if err == nil || client != nil || !strings.Contains(err.Error(), why) ||
			!strings.HasPrefix(err.Error(), "dial the fake cloud") {
			t.Errorf("%q: the answer is %v, want %q", address, err, why)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, other.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestDial_BelowAPath(t *testing.T) {
	cloud := New()
	server := httptest.NewServer(http.StripPrefix("/clouds/one", cloud.Handler()))
	defer server.Close()
	client, err := Dial(within(t), server.URL+"/clouds/one/")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := ensure(t.Context(), t, client.Provider()); err != nil || !exists(cloud) {
		t.Errorf("the call answers %v", err)
	}
}

func TestClient_DoesToTheCloudWhatATestThereCouldDo(t *testing.T) {
	cloud := New()
	client, ctx := dial(t, cloud), within(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// same holds what the client reads against what the cloud holds.
	same := func(what string, there, here any, err error) {
		t.Helper()
		want, _ := json.Marshal(here)
		got, _ := json.Marshal(there)
		if err != nil || string(want) != string(got) {
			t.Errorf("%s: the client reads %s, %v; the cloud has %s", what, got, err, want)
		}
	}

	must(client.AddInstances(ctx, machine, Instance{Name: "b", Addresses: []v1.NodeAddress{}}))
	must(client.StopInstance(ctx, "b"))
	if b, _ := cloud.Instance("b"); !b.Shutdown || b.Addresses == nil || len(b.Addresses) != 0 {
		t.Errorf("b is %+v, want it stopped and without addresses", b)
	}
	instances, err := client.Instances(ctx)
	same("instances", instances, cloud.Instances(), err)
	must(client.StartInstance(ctx, "b"))
	if b, _ := cloud.Instance("b"); b.Shutdown {
		t.Error("b was not started")
	}
	must(client.RemoveInstance(ctx, "b"))
	if err := client.RemoveInstance(ctx, "b/../c"); err == nil ||
		!strings.Contains(err.Error(), `"b/../c"`) {
		t.Errorf("removing an instance that is not there answers %v", err)
	}

	must(ensure(ctx, t, client.Provider(WithCaller("x"))))
	balancers, err := client.LoadBalancers(ctx)
	same("load balancers", balancers, cloud.LoadBalancers(), err)
	must(client.AddRoutes(ctx,
		Route{Cluster: "c", TargetNode: "node-1", DestinationCIDR: "10.0.0.0/24", Blackhole: true}))
	routes, err := client.Routes(ctx)
	same("routes", routes, cloud.Routes(), err)

	calls, err := client.Calls(ctx, CallFilter{
		Method: EnsureLoadBalancer, Interface: LoadBalancer,
		Caller: "x", Object: "default/web", Mutating: true, Finished: true,
	})
	same("calls", calls, cloud.Calls(), err)
	none, err := client.Calls(ctx, CallFilter{Failed: true})
	same("failed calls", none, []Call{}, err)
	stats, err := client.Stats(ctx)
	same("stats", stats, cloud.Stats(), err)
	must(client.ResetCalls(ctx))
	if len(cloud.Calls()) != 0 {
		t.Error("the calls were not forgotten")
	}

	must(client.SetLatency(ctx, time.Hour))
	if cloud.faults.latency != time.Hour {
		t.Error("the latency was not set")
	}
	must(client.SetLatency(ctx, -1))
	if cloud.faults.latency != 0 {
		t.Error("the latency was not taken away")
	}

	done := make(chan error, 1)
	go func() {
		call, err := client.WaitForCall(ctx, CallFilter{Method: ListRoutes})
		if err == nil && call.Method != ListRoutes {
			err = errors.New("it is another call")
		}
		done <- err
	}()
	_, err = routesOf(t, client.Provider()).ListRoutes(ctx, "c")
	must(err)
	must(<-done)
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := client.WaitForCall(short, CallFilter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait with a dead context answers %v", err)
	}

	overlaps, err := client.ConcurrentCalls(ctx)
	same("overlaps", len(overlaps), 0, err)
}

func TestClient_InjectsFaults(t *testing.T) {
	cloud := New()
	client, ctx := dial(t, cloud), within(t)
	faults := []Fault{
		{
			Methods: []Method{EnsureLoadBalancer, Master}, Object: "o", Caller: "c", Times: 3,
			Delay: 1500 * time.Millisecond, Err: cloudprovider.InstanceNotFound,
		},
		{Hang: true, IgnoreContext: true, AfterEffect: true},
		{Panic: "boom"},
		{Panic: ""},
		{ReturnZero: true},
		{Err: api.NewRetryError("busy", 5*time.Second)},
		{Err: errors.New("plain")},
	}
	for n, f := range faults {
		f.Caller = "unknown"
		faults[n].Caller = "unknown"
		if id, err := client.Inject(ctx, f); err != nil || id != n+1 {
			t.Fatalf("injecting %+v answers %d, %v", f, id, err)
		}
	}
	there, err := client.Faults(ctx)
	if err != nil || len(there) != len(faults) {
		t.Fatalf("the client reads %v, %v", there, err)
	}
	for n, here := range cloud.Faults() {
		if !reflect.DeepEqual(here.Fault, faults[n]) || !reflect.DeepEqual(there[n], here) {
			t.Errorf("fault %+v is %+v in the cloud and comes back as %+v", faults[n], here,
				there[n])
		}
	}
	if err := client.ClearFault(ctx, 2); err != nil || len(cloud.Faults()) != len(faults)-1 {
		t.Errorf("clearing one answers %v and leaves %v", err, cloud.Faults())
	}
	if err := client.ClearFault(ctx, 2); err == nil ||
		!strings.Contains(err.Error(), "no fault 2") {
		t.Errorf("clearing it again answers %v", err)
	}
	if err := client.ClearFaults(ctx); err != nil || len(cloud.Faults()) != 0 {
		t.Errorf("clearing all answers %v and leaves %v", err, cloud.Faults())
	}
	if _, err := client.Inject(ctx, Fault{Times: -1, Hang: true}); err == nil ||
		!strings.Contains(err.Error(), "negative") {
		t.Errorf("a fault that makes no sense is answered with %v", err)
	}
}

func TestClient_WhenTheAnswerIsMalformed_SaysSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/cloud":
			_, _ = io.WriteString(w,
				`{"providerName":"fake","supported":["LoadBalancer","Routes"]}`)
		case "/v1/call/ListRoutes":
			_, _ = io.WriteString(w, `{"error":{"kind":"Fatal"}}`)
		default:
			_, _ = io.WriteString(w, `{"ingress":7}`)
		}
	}))
	defer server.Close()
	client, err := Dial(within(t), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := ensure(t.Context(), t, client.Provider()); err == nil ||
		!strings.Contains(err.Error(), "not that of a fake cloud") {
		t.Errorf("the call answers %v", err)
	}
	if _, err := routesOf(t, client.Provider()).ListRoutes(t.Context(), "c"); err == nil ||
		!strings.Contains(err.Error(), `"Fatal" is unknown`) {
		t.Errorf("the call answers %v", err)
	}
}
