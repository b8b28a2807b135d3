package ccm_test

import (
	"strings"
	"testing"

	"go.uber.org/fx"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

func TestNamed_TwoModules_ShareNoInput(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := standaloneParams("mine")
	names := []string{"east", "west"}
	options := []fx.Option{fx.NopLogger, fx.Supply(p.Logger)}
	terms := map[string]chan *ccm.Term{}
	for _, name := range names {
		module := ccm.Named(name)
		terms[name] = make(chan *ccm.Term, 1)
		cfg := p.Config
		cfg.ClusterName = name
		options = append(options, module.Module(), module.Supply(cfg),
			module.Provide(func() *rest.Config {
				return &rest.Config{Host: "https://127.0.0.1:1/" +
					name}
			}),
			fx.Provide(
				module.AsProvider(func() ccm.Provider {
					return fake.New(fake.WithProviderName("cloud-" + name)).CCMProvider()
				}),
				module.AsController(func() ccm.Controller { return observed("mine", terms[name]) }),
			))
	}
	var both struct {
		fx.In
		East *ccm.Manager `name:"east"`
		West *ccm.Manager `name:"west"`
	}
	app := fx.New(append(options, fx.Populate(&both))...)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*ccm.Manager{"east": both.East, "west": both.West} {
		term := <-terms[name]
		if m.Name() != name || term.ClusterName() != name ||
			!strings.HasSuffix(m.RESTConfig().Host, name) {
			t.Errorf("Manager %q has the name %q, the cluster %q and the API server %s", name,
				m.Name(), term.ClusterName(), m.RESTConfig().Host)
		}
		if got := term.Cloud().ProviderName(); got != "cloud-"+name ||
			m.Status().Provider != "cloud-"+name {
			t.Errorf("Manager %q has the cloud %q", name, got)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNamed_ValuesOfAnotherModule_AreNotUsed(t *testing.T) {
	p := standaloneParams("mine")
	east := ccm.Named("east")
	err := fx.New(fx.NopLogger, east.Module(), fx.Supply(p.Config, p.RESTConfig, p.Logger),
		supplyProvider(p.Providers[0])).Err()
	if err == nil || !strings.Contains(err.Error(), `add ccm.Named("east").Supply(cfg)`) {
		t.Errorf("a Config without the name was used, or the error does not say what to add: %v", err)
	}
	err = fx.New(fx.NopLogger, east.Module(), east.Supply(p.Config, p.RESTConfig),
		fx.Supply(p.Logger), supplyProvider(p.Providers[0])).Err()
	if err == nil || !strings.Contains(err.Error(), "no cloud provider was given") {
		t.Errorf("the provider of another Manager was used: %v", err)
	}
}

func TestNamed_ReplaceProviders_ReplacesTheProvider(t *testing.T) {
	p := standaloneParams("mine")
	east := ccm.Named("east")
	var m struct {
		fx.In
		*ccm.Manager `name:"east"`
	}
	real := func() (ccm.Provider, error) { panic("the real provider was built") }
	app := fx.New(fx.NopLogger, east.Module(), east.Supply(p.Config, p.RESTConfig),
		fx.Supply(p.Logger),
		fx.Provide(east.AsProvider(real),
			east.AsController(func() ccm.Controller { return idle("mine") })),
		east.ReplaceProviders(provider(func() (cloudprovider.Interface,
			error,
		) {
			return emptyCloud(), nil
		})), fx.Populate(&m))
	if err := app.Err(); err != nil {
		t.Fatal(err)
	}
	if got := m.Status().Provider; got != "stub" {
		t.Errorf("the provider is %q, want the replacement", got)
	}
}
