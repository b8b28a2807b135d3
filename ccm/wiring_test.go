package ccm_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// decoration is a dependency of a host's decorator.
type decoration struct{ name string }

// noTracer is a tracer by its type alone.
type noTracer struct{ ccm.Tracer }

func cloudNamed(name string) ccm.Provider {
	return fake.New(fake.WithProviderName(name)).CCMProvider()
}

// An app may supply a value under another type than the interface that the module requests.
func TestWiring_ConcreteTypes_AreAccepted(t *testing.T) {
	registry, elector := prometheus.NewRegistry(), election.NewHost()
	asked := make(chan string, 100)
	note := func(name string) (*rest.Config, error) {
		asked <- name
		return &rest.Config{Host: "https://127.0.0.1:1/by-name"}, nil
	}
	holds := func(m *ccm.Manager, controller string) bool {
		for _, c := range m.Status().Controllers {
			if c.Name == controller {
				return true
			}
		}
		return false
	}
	for name, c := range map[string]struct {
		app  fx.Option
		want func(*ccm.Manager) bool
	}{
		"ReplaceProviders in another module": {
			fx.Options(supplyProvider(cloudNamed("real")),
				fx.Module("tests", ccm.ReplaceProviders(cloudNamed("replaced")))),
			func(m *ccm.Manager) bool { return m.Status().Provider == "replaced" },
		},
		"ReplaceProviders and a plain Provider": {
			fx.Options(fx.Supply(cloudNamed("real")), ccm.ReplaceProviders(cloudNamed("replaced"))),
			func(m *ccm.Manager) bool { return m.Status().Provider == "replaced" },
		},
		"a plain Provider": {
			fx.Provide(func() ccm.Provider { return cloudNamed("plain") }),
			func(m *ccm.Manager) bool { return m.Status().Provider == "plain" },
		},
		"a plain Controller": {
			fx.Options(fx.Supply(cloudNamed("cloud")),
				fx.Provide(func() ccm.Controller { return idle("plain") })),
			func(m *ccm.Manager) bool { return holds(m, "plain") },
		},
		"a plain *Provider": {
			fx.Provide(func() *ccm.Provider { return new(cloudNamed("plain")) }),
			func(m *ccm.Manager) bool { return m.Status().Provider == "plain" },
		},
		"a plain []Provider": {
			fx.Supply([]ccm.Provider{cloudNamed("plain")}),
			func(m *ccm.Manager) bool { return m.Status().Provider == "plain" },
		},
		"a plain *Controller": {
			fx.Options(fx.Supply(cloudNamed("cloud")),
				fx.Provide(func() *ccm.Controller { return new(idle("plain")) })),
			func(m *ccm.Manager) bool { return holds(m, "plain") },
		},
		"a plain []Controller": {
			fx.Supply(cloudNamed("cloud"), []ccm.Controller{idle("one"), idle("two")}),
			func(m *ccm.Manager) bool { return holds(m, "one") && holds(m, "two") },
		},
		"a plain Controller and one of the group": {
			fx.Options(fx.Supply(cloudNamed("cloud"), idle("plain")),
				supplyController(idle("grouped"))),
			func(m *ccm.Manager) bool { return holds(m, "plain") && holds(m, "grouped") },
		},
		"a *prometheus.Registry": {
			fx.Options(fx.Supply(cloudNamed("cloud"), registry)),
			// The name is in use only if the Manager has registered its metrics.
			func(*ccm.Manager) bool {
				return registry.Register(
					prometheus.NewGauge(prometheus.GaugeOpts{Name: "fxccm_leading"})) != nil
			},
		},
		"a Tracer": {
			fx.Options(fx.Supply(cloudNamed("cloud")),
				fx.Provide(func() ccm.Tracer { return noTracer{} }),
				fx.Decorate(func(p ccm.Params) ccm.Params {
					if p.Tracer == (noTracer{}) {
						p.Name = "traced"
					}
					return p
				})),
			func(m *ccm.Manager) bool { return m.Name() == "traced" },
		},
		"a ClientBuilder": {
			fx.Supply(cloudNamed("cloud"), ccm.ClientBuilder(note)),
			func(m *ccm.Manager) bool {
				return <-asked != "" &&
					strings.HasSuffix(m.RESTConfig().Host, "/by-name")
			},
		},
		"a function as ClientBuilder": {
			fx.Supply(cloudNamed("cloud"), note),
			func(m *ccm.Manager) bool {
				return <-asked != "" &&
					strings.HasSuffix(m.RESTConfig().Host, "/by-name")
			},
		},
		"values that other modules have for themselves, or that are nil": {
			fx.Options(fx.Supply(cloudNamed("cloud")),
				fx.Module("db", fx.Provide(slog.Default, prometheus.NewRegistry, fx.Private)),
				fx.Provide(func() election.Elector { return nil })),
			func(m *ccm.Manager) bool { return m.Status().Provider == "cloud" },
		},
		"annotations of fx": {
			fx.Options(fx.Supply(fx.Annotate("named", fx.ResultTags(`name:"cloud"`))),
				fx.Provide(ccm.AsProvider(cloudNamed, fx.ParamTags(`name:"cloud"`)))),
			func(m *ccm.Manager) bool { return m.Status().Provider == "named" },
		},
		"fx.Decorate of the Params": {
			fx.Options(fx.Supply(cloudNamed("cloud"), &decoration{"decorated"}),
				fx.Decorate(func(p ccm.Params, d *decoration) ccm.Params {
					p.Name = d.name
					return p
				})),
			func(m *ccm.Manager) bool { return m.Name() == "decorated" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := standaloneParams("*")
			var m *ccm.Manager
			if err := fx.New(host(p, c.app, fx.Populate(&m))).Err(); err != nil {
				t.Fatal(err)
			}
			if !c.want(m) {
				t.Errorf("the value was not used: %+v", m.Status())
			}
		})
	}

	for name, c := range map[string]struct {
		elector fx.Option
		lead    func(context.Context)
	}{
		"an *election.Host": {
			fx.Supply(elector),
			func(ctx context.Context) { _ = elector.Lead(ctx, election.Grant{}) },
		},
		"an *election.Alone": {fx.Supply(&election.Alone{}), func(context.Context) {}},
		"interface value": {
			fx.Options(fx.Supply(elector),
				fx.Provide(func() election.Elector { return &election.Alone{} })),
			func(context.Context) {},
		},
	} {
		t.Run("an Elector: "+name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := standaloneParams("mine")
			// the default elector would not lead, because the API server does not answer
			p.Config.LeaderElection.LeaderElect = true
			var m *ccm.Manager
			app := fx.New(host(p, c.elector, fx.Supply(cloudNamed("cloud"), idle("mine")),
				fx.Populate(&m)))
			if err := app.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				c.lead(ctx)
			}()
			waitReady(t, m)
			if err := app.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			cancel()
			<-ended
		})
	}
}

func TestWiring_AnEventRecorderSource_IsUsed(t *testing.T) {
	recorder := record.NewFakeRecorder(1)
	p := standaloneParams("mine")
	greets := ccm.Controller{
		Name: "mine",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			t.Recorder("x").Event(nil, "Normal", "Hello", "there")
			return nil, ccm.ErrSkip
		},
	}
	app := fx.New(host(p, fx.Supply(cloudNamed("cloud"), greets,
		ccm.EventRecorderSource(func(string) record.EventRecorder { return recorder }))))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-recorder.Events:
	case <-time.After(limit):
		t.Error("the host's recorder received no event")
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWiring_InvalidApp_ErrorSaysWhatToChange(t *testing.T) {
	boom := errors.New("the host's own trouble")
	cloud := fx.Supply(cloudNamed("cloud"))
	own := standaloneParams("*")
	module := func(options ...fx.Option) fx.Option {
		return fx.Options(ccm.Module, fx.Supply(own.RESTConfig, own.Logger), fx.Options(options...))
	}
	const noProvider = "no cloud provider was given: add one to the fx app (a provider's Module, or ccm.AsProvider), or set Params.Providers"
	for name, c := range map[string]struct {
		app  fx.Option
		want string
	}{
		"no Config": {
			module(cloud),
			"ccm: no Config in the app: add fx.Supply(cfg) with a cfg that began as ccm.DefaultConfig()",
		},
		"a Config and a *Config": {
			module(cloud, fx.Supply(own.Config, &own.Config)),
			"ccm: the app has two values for Params.Config: keep one of them",
		},
		"a Config whose constructor lacks a dependency": {
			module(cloud, fx.Provide(func(*testing.B) ccm.Config { return own.Config })),
			"ccm: the app provides ccm.Config, but its constructor cannot be called",
		},
		"a *rest.Config whose constructor lacks a dependency": {
			fx.Options(ccm.Module, cloud, fx.Supply(own.Config),
				fx.Provide(func(*testing.B) *rest.Config { return own.RESTConfig })),
			"needs *testing.B, which the app does not provide",
		},
		"an Elector of a module whose dependency lacks a dependency": {
			module(cloud, fx.Supply(own.Config), fx.Module("host", fx.Provide(
				func(*testing.B) *decoration { return nil },
				func(*decoration) election.Elector { return &election.Alone{} }))),
			"ccm: the app provides election.Elector, but its constructor cannot be called",
		},
		"a DrainTimeoutPolicy whose constructor lacks a dependency": {
			module(cloud, fx.Supply(own.Config),
				fx.Provide(func(*testing.B) ccm.DrainTimeoutPolicy { return ccm.KeepRunning })),
			"needs *testing.B, which the app does not provide",
		},
		"a logr.Logger whose constructor lacks a dependency": {
			fx.Options(ccm.Module, cloud, fx.Supply(own.Config, own.RESTConfig),
				fx.Provide(func(*testing.B) logr.Logger { return logr.Discard() })),
			"needs *testing.B, which the app does not provide",
		},
		"a Provider that is no constructor": {
			module(fx.Supply(own.Config), fx.Provide(ccm.AsProvider(cloudNamed("cloud")))),
			"got a ccm.Provider, which is no function",
		},
		"a Validate that panics": {
			module(cloud, fx.Supply(own.Config, ccm.Controller{
				Name: "mine", New: idle("mine").New,
				Validate: func(ccm.Config) error { panic("of the host") },
			})),
			"Params.Controllers[mine]: Invalid value: \"\": panic: of the host",
		},
		"a decorator that lacks a dependency": {
			module(cloud, fx.Supply(own.Config),
				fx.Decorate(func(p ccm.Params, _ *testing.B) ccm.Params { return p })),
			"*testing.B",
		},
		"no provider": {module(fx.Supply(own.Config)), noProvider},
		"two replacements of the providers": {
			module(cloud, fx.Supply(own.Config),
				fx.Module("a", ccm.ReplaceProviders(cloudNamed("a"))), fx.Module("b",
					ccm.ReplaceProviders(cloudNamed("b")))),
			"ccm: the app calls ReplaceProviders more than once: keep one of the calls",
		},
		"two electors": {
			module(cloud, fx.Supply(own.Config, election.NewHost(), &election.Alone{})),
			"ccm: the app has two values for Params.Elector: keep one of them",
		},
		"a policy that there is not": {
			module(cloud, fx.Supply(own.Config, ccm.DrainTimeoutPolicy(7))),
			"ccm: unknown DrainTimeoutPolicy 7",
		},
		"a host's constructor that fails": {
			fx.Options(ccm.Module, cloud, fx.Supply(own.Config),
				fx.Provide(func() (*rest.Config, error) { return nil, boom })),
			boom.Error(),
		},
		"a provider that cannot be made": {
			module(fx.Supply(own.Config),
				fx.Provide(ccm.AsProvider(func() (ccm.Provider, error) {
					return ccm.Provider{},
						boom
				}))),
			boom.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			err := fx.New(fx.NopLogger, c.app).Err()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("want an error that says %q, got: %v", c.want, err)
			}
			if strings.Contains(err.Error(), "makeFuncStub") ||
				!strings.Contains(err.Error(), `"github.com/fxccm/fxccm/ccm".`) {
				t.Errorf("the error does not name the affected functions: %v", err)
			}
		})
	}
}

func TestWiring_Loggers_LogrHasPrecedenceOverSlog(t *testing.T) {
	var own, other strings.Builder
	text := func(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }
	logger := logr.FromSlogHandler(text(&own).Handler())
	for name, loggers := range map[string]fx.Option{
		"*slog.Logger": fx.Supply(text(&own)),
		"logr.Logger":  fx.Supply(logger, text(&other)),
		"*logr.Logger": fx.Supply(&logger, logr.FromSlogHandler(text(&other).Handler())),
		"in Params":    fx.Options(fx.Supply(text(&other)), fx.Decorate(withLogger(&logger))),
		"of AsParams":  fx.Supply(text(&own)),
		"in AsParams":  fx.Supply(text(&other)),
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			own.Reset()
			p := standaloneParams("mine")
			app := fx.Supply(p.Config, p.RESTConfig, p.Providers[0], idle("mine"))
			if strings.HasSuffix(name, "AsParams") {
				one := site("east", idle("mine"))
				if name == "in AsParams" {
					one.Logger = &logger
				}
				app = supplyParams(one)
			}
			var m *ccm.Manager
			running := fx.New(fx.NopLogger, ccm.Module, app, loggers, fx.Populate(&m))
			if err := running.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			waitReady(t, m)
			if err := running.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(own.String(), "Term is ready") || other.Len() > 0 {
				t.Errorf("the logger got %q, and the other one %q", &own, &other)
			}
		})
	}
}

func withLogger(log *logr.Logger) func(ccm.Params) ccm.Params {
	return func(p ccm.Params) ccm.Params {
		p.Logger = log
		return p
	}
}

// fx.Supply takes the policies without a type conversion.
func TestWiring_ShutDownOnDrainTimeout_IsAPolicyWithoutConversion(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	release := make(chan struct{})
	p := standaloneParams("mine")
	p.Config.DrainTimeout = metav1.Duration{Duration: 50 * time.Millisecond}
	elector := election.NewHost()
	var m *ccm.Manager
	app := fx.New(host(p, fx.Supply(cloudNamed("cloud"), elector, stubborn("mine", release),
		ccm.ShutDownOnDrainTimeout), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := app.Wait()
	leading, lose := context.WithCancel(t.Context())
	lent := make(chan error, 1)
	go func() { lent <- elector.Lead(leading, election.Grant{}) }()
	waitReady(t, m)
	lose()
	<-lent
	if signal := <-ended; signal.ExitCode != ccm.ExitDrainTimeout {
		t.Errorf("the app was shut down with code %d", signal.ExitCode)
	}
	close(release)
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
