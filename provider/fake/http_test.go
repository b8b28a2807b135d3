package fake

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
)

func TestClient_WhenTheContextEnds_CancelsTheCallInTheCloud(t *testing.T) {
	calls := map[Method]func(context.Context, cloudprovider.Interface) error{
		"EnsureLoadBalancer": func(ctx context.Context, p cloudprovider.Interface) error {
			return ensure(ctx, t, p)
		},
		"InstanceExists": func(ctx context.Context, p cloudprovider.Interface) error {
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

func TestClient_WhenTheCallIgnoresItsContext_ItContinuesInTheCloud(t *testing.T) {
	cloud := New()
	p := dial(t, cloud).Provider()
	release := cloud.On("EnsureLoadBalancer").IgnoringContext().Hang()
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

// roundTripper is a wrapped transport, like a fence.
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
			t.Errorf("the transport did not receive %s", want)
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
	cloud.On("SetInformers").Hang()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The call has no context.
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

func TestDial_NoFakeCloud_IsAnError(t *testing.T) {
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

func TestClient_WhenTheAnswerIsMalformed_ReturnsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/cloud" {
			_, _ = io.WriteString(w, `{"providerName":"fake","supported":["LoadBalancer"]}`)
			return
		}
		_, _ = io.WriteString(w, `{"ingress":7}`)
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
}

// request sends one request to the cloud's handler.
func request(t *testing.T, cloud *Cloud, verb, target, body string) (status int, answer string) {
	t.Helper()
	w := httptest.NewRecorder()
	cloud.Handler().ServeHTTP(w,
		httptest.NewRequestWithContext(t.Context(), verb, target, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestHandler_InvalidCall_IsRefusedAndNotRecorded(t *testing.T) {
	for _, c := range []struct{ verb, target, body, reason string }{
		{"GET", "/v1/call/Teapot?args=%7B%7D", "", `no method "Teapot"`},
		{"GET", "/v1/call/InstanceExists?args=%7B%7D", "", "neither a node name nor a provider ID"},
		{"GET", "/v1/call/InstanceExists?args=%7B", "", "unexpected EOF"},
		{"POST", "/v1/call/EnsureLoadBalancer", "{}", "has no UID"},
		{"POST", "/v1/call/EnsureLoadBalancer", `{"service":{"uid":7}}`, "cannot unmarshal"},
	} {
		cloud := New()
		status, answer := request(t, cloud, c.verb, c.target, c.body)
		if status != http.StatusBadRequest || !strings.Contains(answer, c.reason) {
			t.Errorf("%s %s %s is answered with %d %q, want %q", c.verb, c.target, c.body, status,
				answer, c.reason)
		}
		if calls := cloud.Calls(); len(calls) != 0 {
			t.Errorf("%s %s was refused and yet recorded: %v", c.verb, c.target, calls)
		}
	}
}

func FuzzHandler(f *testing.F) {
	for _, seed := range []string{
		`{"node":{"name":"a"}}`, `null`, `[null]`, `{`,
		`{"cluster":"c","service":{"uid":"u","ipFamilies":["IPv6"]},"nodes":["a","b"]}`,
		`{"route":{"targetNode":"a","destinationCIDR":"fd00::/64"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		cloud := New()
		for m := range operations {
			status, answer := request(t, cloud, "POST", "/v1/call/"+string(m), input)
			if status != http.StatusOK && status != http.StatusBadRequest {
				t.Errorf("%s with %q is answered with %d %q", m, input, status, answer)
			}
		}
	})
}
