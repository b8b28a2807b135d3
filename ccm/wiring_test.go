package ccm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

func cloudNamed(name string) ccm.Provider {
	return fake.New(fake.WithProviderName(name)).CCMProvider()
}

// An app may supply a value under another type than the interface that the module requests.
func TestWiring_ConcreteTypes_AreAccepted(t *testing.T) {
	registry, elector := prometheus.NewRegistry(), ccm.NewHostElector()
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
		"a function as ClientBuilder": {
			fx.Supply(cloudNamed("cloud"), note),
			func(m *ccm.Manager) bool {
				return <-asked != "" &&
					strings.HasSuffix(m.RESTConfig().Host, "/by-name")
			},
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
		"a *HostElector": {
			fx.Supply(elector),
			func(ctx context.Context) { _ = elector.Lead(ctx, ccm.Grant{}) },
		},
		"result of AlwaysLead": {fx.Supply(ccm.AlwaysLead()), func(context.Context) {}},
		"interface value": {
			fx.Options(fx.Supply(elector), fx.Provide(ccm.AlwaysLead)),
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

func TestWiring_AFunctionAsEventRecorderSource_IsUsed(t *testing.T) {
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
		func(string) record.EventRecorder { return recorder })))
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
	east := ccm.Named("east")
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
			"ccm: no Config in the app, or its constructor lacks a dependency: add fx.Supply(cfg) with a cfg that began as ccm.DefaultConfig()",
		},
		"a *Config": {
			module(cloud, fx.Supply(&own.Config)),
			"ccm: no Config in the app",
		},
		"a Config whose constructor lacks a dependency": {
			module(cloud, fx.Provide(func(*testing.B) ccm.Config { return own.Config })),
			"or its constructor lacks a dependency",
		},
		"a Config for another module": {
			fx.Options(east.Module(), fx.Supply(own.Config, own.Logger),
				fx.Provide(east.AsProvider(func() ccm.Provider { return cloudNamed("cloud") }))),
			`manager "east": ccm: no Config in the app, or its constructor lacks a dependency: ` +
				`add ccm.Named("east").Supply(cfg) with a cfg that began as ccm.DefaultConfig()`,
		},
		"no provider": {module(fx.Supply(own.Config)), noProvider},
		"no provider of a named module": {
			fx.Options(east.Module(), east.Supply(own.Config, own.RESTConfig),
				fx.Supply(own.Logger), cloud),
			`manager "east": ccm: configuration: cloudProvider.name: Required value: ` + noProvider,
		},
		"two replacements of the providers": {
			module(cloud, fx.Supply(own.Config),
				fx.Module("a", ccm.ReplaceProviders(cloudNamed("a"))), fx.Module("b",
					ccm.ReplaceProviders(cloudNamed("b")))),
			"ccm: the app calls ReplaceProviders more than once: keep one of the calls",
		},
		"two electors": {
			module(cloud, fx.Supply(own.Config, ccm.NewHostElector(), ccm.AlwaysLead())),
			"ccm: the app has two values for ccm.Elector: keep one of them",
		},
		"two policies": {
			module(cloud, fx.Supply(own.Config, ccm.KeepRunning,
				ccm.DrainTimeoutPolicy(ccm.ShutDownOnDrainTimeout))),
			"ccm: the app has two values for ccm.DrainTimeoutPolicy: keep one of them",
		},
		"two sources of clients": {
			module(cloud, fx.Supply(own.Config,
				func(string) (*rest.Config, error) { return own.RESTConfig, nil },
				ccm.ClientBuilder(func(string) (*rest.Config, error) {
					return own.RESTConfig,
						nil
				}))),
			"ccm: the app has two values for ccm.ClientBuilder: keep one of them",
		},
		"two sources of recorders": {
			module(cloud, fx.Supply(own.Config, func(string) record.EventRecorder { return nil },
				ccm.EventRecorderSource(func(string) record.EventRecorder { return nil }))),
			"ccm: the app has two values for ccm.EventRecorderSource: keep one of them",
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

// A named module needs fx.Annotate, which hides a constructor's name in fx's errors. The names of
// the host's constructors stay visible.
func TestWiring_NamedModule_ErrorsNameTheHostsConstructor(t *testing.T) {
	east, p, boom := ccm.Named("east"), standaloneParams("*"), errors.New("the host's own trouble")
	err := fx.New(fx.NopLogger, east.Module(), east.Supply(p.Config), fx.Supply(p.Logger),
		east.Provide(func() (*rest.Config, error) { return nil, boom })).Err()
	if err == nil || !strings.Contains(err.Error(),
		"TestWiring_NamedModule_ErrorsNameTheHostsConstructor") || !errors.Is(err, boom) ||
		!strings.HasPrefix(err.Error(),
			`could not build arguments for function "github.com/fxccm/fxccm/ccm".`) {
		t.Errorf("got %v", err)
	}
}

// fx.Supply takes the policies without a type conversion.
func TestWiring_ShutDownOnDrainTimeout_IsAPolicyWithoutConversion(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	release := make(chan struct{})
	p := standaloneParams("mine")
	p.Config.DrainTimeout = metav1.Duration{Duration: 50 * time.Millisecond}
	elector := ccm.NewHostElector()
	var m *ccm.Manager
	app := fx.New(host(p, fx.Supply(cloudNamed("cloud"), elector, stubborn("mine", release),
		ccm.ShutDownOnDrainTimeout), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := app.Wait()
	leading, lose := context.WithCancel(t.Context())
	lent := make(chan error, 1)
	go func() { lent <- elector.Lead(leading, ccm.Grant{}) }()
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
