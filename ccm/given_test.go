package ccm_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/status"
)

// requests returns an API server that records the client of each request.
func requests(t *testing.T) (*httptest.Server, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var agents []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		agents = append(agents, r.Header.Get("X-Client")+" "+r.UserAgent())
		mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	return server, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(agents)
	}
}

// stamp adds a client's name to its requests.
type stamp string

func (s stamp) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("X-Client", string(s))
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClientBuilder_Clients_AreRequestedByName(t *testing.T) {
	server, agents := requests(t)
	p := standaloneParams("mine")
	p.Config.LeaderElection.LeaderElect = true
	p.RESTConfig = nil
	p.Clients = func(name string) (*rest.Config, error) {
		if name == "forbidden" {
			return nil, errors.New("no such identity")
		}
		config := &rest.Config{Host: server.URL}
		config.Wrap(stamp(name).wrap)
		return config, nil
	}
	if _, err := ccm.New(p); err == nil {
		t.Fatal("New accepted a client that the host refuses")
	}
	results := make(chan error, 2)
	p.Controllers = []ccm.Controller{{
		Name: "mine",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			_, err := t.Client("forbidden")
			results <- err
			client, err := t.Client("my-controller")
			if err != nil {
				return nil, err
			}
			return ccm.RunnableFunc(func(ctx context.Context) error {
				_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
				results <- err
				<-ctx.Done()
				return nil
			}), nil
		},
	}}
	_, stop := start(t, p) // with the default elector
	eventually(t, agents, func(seen []string) bool {
		return slices.ContainsFunc(seen, func(a string) bool {
			return strings.HasPrefix(a, "leader-election ") &&
				strings.HasSuffix(a, "/leader-election")
		})
	}, "a request of client leader-election")
	_ = stop()

	p.Elector = &election.Alone{}
	_, stop = start(t, p)
	if err := <-results; err == nil ||
		!strings.Contains(err.Error(), `client "forbidden": no such identity`) {
		t.Errorf("a client that the host refuses: %v", err)
	}
	<-results
	eventually(t, agents, func(seen []string) bool {
		return slices.ContainsFunc(seen,
			func(a string) bool { return strings.HasPrefix(a, "my-controller ") })
	}, "a request of client my-controller")
	_ = stop()
}

func TestClientBuilder_NoConfiguration_IsAnErrorOfNew(t *testing.T) {
	for name, source := range map[string]ccm.ClientBuilder{
		"nothing": func(string) (*rest.Config, error) { return nil, nil },
		"an error": func(string) (*rest.Config, error) {
			return nil,
				errors.New("no such identity")
		},
		"no host": func(string) (*rest.Config, error) { return &rest.Config{Host: "://"}, nil },
	} {
		p := standaloneParams("*")
		p.Clients = source
		var config *ccm.ConfigError
		if _, err := ccm.New(p); !errors.As(err, &config) {
			t.Errorf("%s: New returned %v", name, err)
		}
	}
}

func TestSharedInformers_WithoutStop_AreAnErrorOfNew(t *testing.T) {
	p := standaloneParams("*")
	p.Informers.Factory = informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if _, err := ccm.New(p); err == nil || !strings.Contains(err.Error(), "informers.stop") {
		t.Errorf("New returned %v", err)
	}
}

func TestEventRecorders_HostsRecorder_ReceivesEvents(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	var components []string
	p := standaloneParams("mine")
	p.EventRecorders = func(component string) record.EventRecorder {
		components = append(components, component)
		return recorder
	}
	p.Controllers = []ccm.Controller{{
		Name: "mine",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			t.Recorder("my-component").Event(nil, "Normal", "Hello", "from the term")
			return nil, ccm.ErrSkip
		},
	}}
	_, stop := start(t, p)
	if event := <-recorder.Events; event != "Normal Hello from the term" {
		t.Errorf("event %q", event)
	}
	_ = stop()
	if !slices.Equal(components, []string{"my-component"}) {
		t.Errorf("recorders were built for %q", components)
	}
}

// A fake clock makes leadership expire at once.
func TestClock_LeadershipExpiresByIt_TermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocktesting.NewFakeClock(time.Now())
		until := clock.Now().Add(time.Hour)
		e := election.NewHost()
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Elector, p.Clock = e, clock
		m, stop := start(t, p)
		host, lose := context.WithCancel(t.Context())
		lent := make(chan error, 1)
		go func() {
			lent <- e.Lead(host,
				election.Grant{ValidUntil: func() time.Time { return until }})
		}()
		eventually(t, m.Status, func(s status.Manager) bool { return s.Ready && s.Term == 1 },
			"ready")
		clock.Step(2 * time.Hour)
		eventually(t, m.Status, func(s status.Manager) bool {
			return s.Term > 1 ||
				s.State == status.Standby
		}, "the end of the term")
		lose()
		<-lent
		_ = stop()
	})
}

func TestRegisterer_TwoManagers_HaveSeriesWhileTheyRun(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	series := func(name string) []string {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var managers []string
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "manager" && m.GetGauge().GetValue() == 1 {
						managers = append(managers, l.GetValue())
					}
				}
			}
		}
		return managers
	}
	var all []*ccm.Manager
	ctx, stop := context.WithCancel(t.Context())
	for _, name := range []string{"east", "west"} {
		p := standaloneParams("mine")
		p.Name, p.Registerer = name, registry
		p.Controllers = []ccm.Controller{idle("mine")}
		m, err := ccm.New(p)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = m.Run(ctx) }()
		all = append(all, m)
	}
	eventually(t, func() []string { return series("fxccm_leading") },
		func(s []string) bool { return slices.Equal(s, []string{"east", "west"}) }, "both lead")
	// Each Manager has exactly one state with the value 1. Other tests check with Status that it is
	// the right one.
	if s := series("fxccm_manager_state"); !slices.Equal(s, []string{"east", "west"}) {
		t.Errorf("the Managers with a state are %q", s)
	}
	stop()
	for _, m := range all {
		<-m.Done()
	}
	for _, metric := range []string{"fxccm_leading", "fxccm_manager_state"} {
		if s := series(metric); len(s) > 0 {
			t.Errorf("after the Managers have ended, %s still has series of %q", metric, s)
		}
	}
	// A metric name that another collector uses is an error.
	other := prometheus.NewRegistry()
	other.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "fxccm_leading"}))
	p := standaloneParams("*")
	p.Registerer = other
	if _, err := ccm.New(p); err == nil || !strings.Contains(err.Error(), "fxccm_leading") {
		t.Errorf("New returned %v", err)
	}
}

// A controller that does not return cannot act, so the default policy does not shut the host down.
func TestDrainTimeout_NoCallCanAct_ManagerRecoversAndPolicyDecides(t *testing.T) {
	type answer struct {
		policy   ccm.DrainTimeoutPolicy
		exitCode int
		ends     bool
	}
	called := make(chan *ccm.DrainTimeoutError, 1)
	for name, want := range map[string]answer{
		"default":      {ccm.ShutDownIfActing, 0, false},
		"keep running": {ccm.KeepRunning, 0, false},
		"shut down":    {ccm.ShutDownOnDrainTimeout, ccm.ExitDrainTimeout, true},
		"custom":       {ccm.KeepRunning, 42, true},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			release := make(chan struct{})
			p := standaloneParams("mine")
			p.Config.DrainTimeout = metav1.Duration{Duration: time.Second}
			e := election.NewHost()
			var m *ccm.Manager
			options := []fx.Option{
				supplyProvider(p.Providers[0]), supplyController(stubborn("mine",
					release)), fx.Populate(&m),
				fx.Supply(fx.Annotate(e, fx.As(new(election.Elector)))),
			}
			if name != "default" {
				options = append(options, fx.Supply(want.policy))
			}
			if name == "custom" {
				options = append(options, fx.Decorate(func(p ccm.Params,
					app fx.Shutdowner,
				) ccm.Params {
					p.OnDrainTimeout = func(err *ccm.DrainTimeoutError) {
						called <- err
						_ = app.Shutdown(fx.ExitCode(42))
					}
					return p
				}))
			}
			app := fx.New(host(p, options...))
			if err := app.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ended := app.Wait()
			leading, lose := context.WithCancel(t.Context())
			lent := make(chan error, 1)
			go func() { lent <- e.Lead(leading, election.Grant{}) }()
			waitReady(t, m)
			lose()
			stuck := func(s status.Manager) bool {
				return s.State == status.Degraded &&
					strings.Contains(s.Reason, "controller mine (") && len(s.Running) == 1 &&
					!s.Running[0].MayAct
			}
			eventually(t, m.Status, stuck, "degraded, naming the controller")
			if want.ends {
				if signal := <-ended; signal.ExitCode != want.exitCode {
					t.Errorf("the app ends with exit code %d", signal.ExitCode)
				}
			}
			if name == "custom" {
				if err := <-called; err.Term != 1 || err.MayAct() {
					t.Errorf("the policy was called with %v", err)
				}
			}
			if err := <-lent; err != nil {
				t.Errorf("the host's election got %v, want nil because no call can act", err)
			}
			close(release)
			eventually(t, m.Status, func(s status.Manager) bool {
				return s.State == status.Standby &&
					len(runWarnings(s)) == 0
			}, "recovered")
			leading, lose = context.WithCancel(t.Context())
			go func() { lent <- e.Lead(leading, election.Grant{}) }()
			eventually(t, m.Status, func(s status.Manager) bool { return s.Ready && s.Term == 2 },
				"the next term")
			if err := app.Stop(context.Background()); err != nil {
				t.Errorf("Stop returned %v", err)
			}
			lose()
			<-lent
			select {
			case signal := <-ended:
				t.Errorf("the app was asked to end with exit code %d", signal.ExitCode)
			default:
			}
		})
	}
}

func TestMount_Prefixes_EndpointsAreOnTheHostsMux(t *testing.T) {
	p := standaloneParams("mine")
	app := func(mux *http.ServeMux, options ...fx.Option) *fx.App {
		return fx.New(host(p, append(options, fx.Supply(mux), supplyProvider(p.Providers[0]),
			supplyController(idle("mine")))...))
	}
	for _, prefix := range []string{"", "/ccm", "/a/b"} {
		mux := http.NewServeMux()
		if err := app(mux, endpoints.Mount(prefix)).Err(); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, prefix+"/healthz", nil))
		if w.Code != http.StatusOK {
			t.Errorf("GET %s/healthz is %d %s", prefix, w.Code, w.Body)
		}
	}
	for _, prefix := range []string{"ccm", "/ccm/", "/", "/{x}", "/a b"} {
		if err := app(http.NewServeMux(),
			endpoints.Mount(prefix)).Err(); err == nil ||
			!strings.Contains(err.Error(), "is not a prefix") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	taken := http.NewServeMux()
	taken.Handle("/ccm/", http.NotFoundHandler())
	if err := app(taken, endpoints.Mount("/ccm")).Err(); err == nil ||
		!strings.Contains(err.Error(), `at "/ccm"`) {
		t.Errorf("a prefix that is taken: %v", err)
	}
}

// A controller that outlives its term gets the same error from informers as from clients.
func TestErrTermOver_HandlerAddedAfterTheTerm_IsRefused(t *testing.T) {
	p := standaloneParams("mine")
	var factory informers.SharedInformerFactory
	p.Controllers = []ccm.Controller{{
		Name: "mine",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			factory = t.Informers()
			return ccm.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}), nil
		},
	}}
	m, stop := start(t, p)
	waitReady(t, m)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{})
	if !errors.Is(err, ccm.ErrTermOver) {
		t.Errorf("a handler is added after the term: %v, want ccm.ErrTermOver", err)
	}
}
