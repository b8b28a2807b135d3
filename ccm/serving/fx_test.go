package serving_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
)

// app describes an fx app with a Manager and a Server.
func app(cfg servingconfig.Config, modules fx.Option, more ...fx.Option) fx.Option {
	return fx.Options(
		fx.NopLogger,
		modules,
		fx.Supply(managerConfig(), cfg, unreachable()),
		fx.Provide(
			func() logr.Logger { return logr.Discard() },
			ccm.AsProvider(func() ccm.Provider { return ccm.StaticProvider(emptyCloud()) }),
		),
		fx.Options(more...),
	)
}

// both returns the modules of the Manager and of the Server, with a free port.
func both() fx.Option {
	return fx.Options(ccm.Module, serving.Module, serving.Configure(serving.WithListener(anyPort)))
}

func start(t *testing.T, a *fx.App) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := a.Start(ctx); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

func stop(t *testing.T, a *fx.App) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return a.Stop(ctx)
}

// holder is a controller that keeps the Manager in its drain.
func holder(release <-chan struct{}) ccm.Controller {
	return ccm.Controller{
		Name: "holder",
		New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				<-release
				return nil
			}), nil
		},
	}
}

func TestModule_ManagerDrains_ProbesAreAnswered(t *testing.T) {
	for name, modules := range map[string]fx.Option{
		"ccm first":     fx.Options(ccm.Module, serving.Module),
		"serving first": fx.Options(serving.Module, ccm.Module),
	} {
		t.Run(name, func(t *testing.T) {
			defer ccmtest.VerifyNoLeaks(t, goleak.IgnoreCurrent())
			release := make(chan struct{})
			var s *serving.Server
			var m *ccm.Manager
			a := fx.New(app(servingconfig.Default(), modules,
				serving.Configure(serving.WithListener(anyPort)), fx.Populate(&s, &m),
				fx.Replace(managerConfig("holder")),
				fx.Provide(ccm.AsController(func() ccm.Controller { return holder(release) }))))
			start(t, a)
			c := client(t, nil)
			waittest.Until(t, "/readyz is ok", func() bool {
				a, err := tryGet(c, s, "/readyz")
				return err == nil && a.StatusCode == http.StatusOK
			})

			stopped := make(chan error, 1)
			go func() { stopped <- stop(t, a) }()
			waittest.Until(t, "the Manager drains",
				func() bool { return m.Status().State == status.Draining })
			get(t, c, s, "/readyz").wants(t, http.StatusInternalServerError, "[-]ccm failed")
			get(t, c, s, "/healthz").wants(t, http.StatusOK, "ok")
			close(release)
			if err := <-stopped; err != nil {
				t.Errorf("Stop: %v", err)
			}
			if s.Addr() != nil {
				t.Errorf("the app has stopped, but still listens at %s", s.Addr())
			}
			c.CloseIdleConnections()
		})
	}
}

func TestModule_PortIsInUse_StartFailsAndTheManagerDoesNotRun(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var m *ccm.Manager
	before := goleak.IgnoreCurrent()
	a := fx.New(app(onPort(taken.Addr()), fx.Options(ccm.Module, serving.Module), fx.Populate(&m)))
	err = a.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) ||
		!strings.Contains(err.Error(), "--secure-port") {
		t.Errorf("Start must fail and name the address and the flag: %v", err)
	}
	if current := m.Status(); current.State != status.Stopped || current.Term != 0 {
		t.Errorf("the Manager was started: %+v", current)
	}
	if err := stop(t, a); err != nil {
		t.Errorf("Stop: %v", err)
	}
	ccmtest.VerifyNoLeaks(t, before)
}

// Fx calls no stop hook after the context of the start has ended.
func TestModule_StartTimesOutInALaterHook_PortIsClosed(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var s *serving.Server
	a := fx.New(app(servingconfig.Default(), both(), fx.Populate(&s),
		fx.Invoke(func(lifecycle fx.Lifecycle, s *serving.Server) {
			lifecycle.Append(fx.Hook{OnStart: func(ctx context.Context) error {
				if s.Addr() == nil {
					return errors.New("the port is not open")
				}
				<-ctx.Done()
				return ctx.Err()
			}})
		})))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := a.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Start returned %v, want its deadline", err)
	}
	if err := stop(t, a); err != nil {
		t.Errorf("Stop: %v", err)
	}
	waittest.Until(t, "the port is closed", func() bool { return s.Addr() == nil })
	ccmtest.VerifyNoLeaks(t, before)
}

func TestModule_InvalidConfiguration_IsAnErrorOfNew(t *testing.T) {
	cfg := servingconfig.Default()
	cfg.Authentication.ClientCAFile = "/nowhere/ca.crt"
	err := fx.New(app(cfg, both())).Err()
	if wrong := (*ccm.ConfigError)(nil); !errors.As(err, &wrong) ||
		!strings.Contains(err.Error(), "serving.authentication.clientCAFile") {
		t.Errorf("want a *ccm.ConfigError that names the field, got %v", err)
	}
}

func TestModule_ConfigByPointer_IsUsed(t *testing.T) {
	cfg := servingconfig.Default()
	cfg.Authentication.ClientCAFile = "/nowhere/ca.crt"
	pointer := fx.Options(fx.NopLogger, both(), fx.Supply(managerConfig(), &cfg, unreachable()),
		fx.Provide(ccm.AsProvider(func() ccm.Provider { return ccm.StaticProvider(emptyCloud()) })))
	two := fx.Options(pointer, fx.Supply(servingconfig.Default()))
	for want, a := range map[string]fx.Option{
		"serving.authentication.clientCAFile": pointer, "keep one of them": two,
	} {
		if err := fx.New(a).Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestModule_OptionOfTheApp_IsUsed(t *testing.T) {
	refused := errors.New("the listener of the host")
	a := fx.New(app(servingconfig.Default(), fx.Options(ccm.Module, serving.Module), fx.Supply(
		serving.WithListener(func(context.Context) (net.Listener, error) { return nil, refused }))))
	if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), refused.Error()) {
		t.Errorf("Start returned %v, want the error of the listener", err)
	}
	if err := stop(t, a); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func TestModule_StartedAgainAfterAStop_Serves(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var s *serving.Server
	a := fx.New(app(servingconfig.Default(), both(), fx.Populate(&s)))
	for range 3 {
		start(t, a)
		c := client(t, nil)
		waittest.Until(t, "/readyz is ok", func() bool {
			a, err := tryGet(c, s, "/readyz")
			return err == nil && a.StatusCode == http.StatusOK
		})
		c.CloseIdleConnections()
		if err := stop(t, a); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	ccmtest.VerifyNoLeaks(t, before)
}

// The API server accepts connections and does not answer, which would delay a start most.
func TestModule_APIServerDoesNotAnswer_StartDoesNotWait(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	var s *serving.Server
	api := &rest.Config{Host: "http://" + mute.Addr().String()}
	a := fx.New(app(servingconfig.Default(), both(), fx.Populate(&s), fx.Replace(api)))
	before := goleak.IgnoreCurrent()
	oneTakesLess(t, 8*time.Second, "Start or Stop", func() time.Duration {
		begun := time.Now()
		start(t, a)
		started := time.Since(begun)
		c := client(t, nil)
		get(t, c, s, "/livez").wants(t, http.StatusOK, "ok")
		get(t, c, s, "/metrics").wants(t, http.StatusServiceUnavailable, "not read yet")
		begun = time.Now()
		if err := stop(t, a); err != nil {
			t.Errorf("Stop: %v", err)
		}
		c.CloseIdleConnections()
		return max(started, time.Since(begun))
	})
	ccmtest.VerifyNoLeaks(t, before)
}

func TestModule_OptionsAndMetricsOfTheHost_AreUsed(t *testing.T) {
	gauge := func(name string) *prometheus.Registry {
		r := prometheus.NewRegistry()
		r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "x"}))
		return r
	}
	cfg := servingconfig.Default()
	cfg.Authorization.AlwaysAllowPaths = []string{"*"}
	var s *serving.Server
	a := fx.New(app(cfg, both(), fx.Populate(&s),
		fx.Provide(func() prometheus.Gatherer { return gauge("host_gauge") }),
		serving.Configure(serving.WithEndpoints(endpoints.WithGatherers(gauge("another_gauge")))),
		serving.Configure(serving.WithEndpoints(endpoints.WithProfiling(false))),
	))
	start(t, a)
	defer func() {
		if err := stop(t, a); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}()
	c := client(t, nil)
	for _, want := range []string{"host_gauge 0", "another_gauge 0", "go_goroutines"} {
		get(t, c, s, "/metrics").wants(t, http.StatusOK, want)
	}
	get(t, c, s, "/debug/pprof/").wants(t, http.StatusNotFound, "")
}

// With fx.Supply(registry) the Manager registers its metrics there, and the port serves them.
func TestModule_ARegistryOfTheHost_IsServed(t *testing.T) {
	cfg := servingconfig.Default()
	cfg.Authorization.AlwaysAllowPaths = []string{"*"}
	var s *serving.Server
	a := fx.New(app(cfg, both(), fx.Populate(&s), fx.Supply(prometheus.NewRegistry())))
	start(t, a)
	defer func() {
		if err := stop(t, a); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}()
	c := client(t, nil)
	waittest.Until(t, "the Manager's metrics are served", func() bool {
		answer, err := tryGet(c, s, "/metrics")
		return err == nil && strings.Contains(answer.body, "fxccm_leading")
	})
}

func TestModule_WithoutAPort_ManagerRuns(t *testing.T) {
	cfg := servingconfig.Default()
	cfg.SecurePort = 0
	var s *serving.Server
	var m *ccm.Manager
	a := fx.New(app(cfg, fx.Options(ccm.Module, serving.Module), fx.Populate(&s, &m)))
	start(t, a)
	waittest.Until(t, "the Manager is ready", func() bool { return m.Status().Ready })
	if s.Addr() != nil {
		t.Errorf("the server listens at %s, want no port", s.Addr())
	}
	if err := stop(t, a); err != nil {
		t.Errorf("Stop: %v", err)
	}
}
