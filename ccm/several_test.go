package ccm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// site returns the Params of one of several Managers, whose controller "mine" is c.
func site(name string, c ccm.Controller) ccm.Params {
	cfg := standaloneParams("mine").Config
	cfg.ClusterName = name
	return ccm.Params{
		Name:        name,
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New(fake.WithProviderName("cloud-" + name)).CCMProvider()},
		Controllers: []ccm.Controller{c},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:1/" + name},
	}
}

func supplyParams(p ccm.Params) fx.Option {
	return fx.Provide(ccm.AsParams(func() ccm.Params { return p }))
}

func TestAsParams_Several_ShareNoInputAndRunBesideTheAppsOwn(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p, registry := standaloneParams("mine"), prometheus.NewRegistry()
	terms := map[string]chan *ccm.Term{}
	options := []fx.Option{
		ccm.Module, fx.NopLogger, fx.Supply(p.Logger, registry),
		fx.Supply(p.Config, p.RESTConfig),
	}
	for _, name := range []string{"", "east", "west"} {
		terms[name] = make(chan *ccm.Term, 1)
		c := observed("mine", terms[name])
		if name == "" {
			options = append(options, supplyProvider(cloudNamed("cloud-")), supplyController(c))
		} else {
			options = append(options, supplyParams(site(name, c)))
		}
	}
	var managers ccm.Managers
	app := fx.New(append(options, fx.Populate(&managers))...)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, m := range managers {
		term := <-terms[name]
		if m.Name() != name || name != "" && (term.Config().ClusterName != name ||
			!strings.HasSuffix(m.RESTConfig().Host, name)) {
			t.Errorf("Manager %q has the name %q, the cluster %q and the API server %s", name,
				m.Name(), term.Config().ClusterName, m.RESTConfig().Host)
		}
		if got := term.Cloud().ProviderName(); got != "cloud-"+name {
			t.Errorf("Manager %q has the cloud %q", name, got)
		}
	}
	var leading []string
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "fxccm_leading" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "manager" {
					leading = append(leading, label.GetValue())
				}
			}
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(leading)
	if want := []string{"", "east", "west"}; !slices.Equal(leading, want) {
		t.Errorf("the app's registry has the metrics of %q, want %q", leading, want)
	}
}

func TestAsParams_WrongWiring_IsAnErrorOfNew(t *testing.T) {
	p, boom := standaloneParams("*"), errors.New("the host's own trouble")
	east, west := supplyParams(site("east", idle("mine"))), supplyParams(site("west", idle("mine")))
	invalid := site("south", idle("mine"))
	invalid.Config.ClusterName = ""
	var m *ccm.Manager
	for name, c := range map[string]struct {
		app  fx.Option
		want string
	}{
		"one name twice": {fx.Options(east, east), `the app has two Managers with Params.Name "east"`},
		"a *Manager of several": {
			fx.Options(east, west, fx.Populate(&m)),
			"the app has several Managers (east, west), and a part of it, such as serving.Module",
		},
		"an invalid configuration": {fx.Options(east, supplyParams(invalid)), `manager "south": `},
		"a Provider that belongs to none": {
			fx.Options(east, supplyProvider(p.Providers[0])), "no Config that it would belong to",
		},
		"a Controller that belongs to none": {
			fx.Options(east, fx.Supply(idle("mine"))), "no Config that it would belong to",
		},
		"a decorator of Params that belong to none": {
			fx.Options(east, fx.Decorate(func(p ccm.Params) ccm.Params {
				p.Owner = "tenant"
				return p
			})),
			"change the Params that AsParams provides",
		},
		"a constructor of something else": {
			fx.Provide(ccm.AsParams(func() ccm.Config { return p.Config })),
			"want a constructor that returns a ccm.Params, and optionally an error; got func() ccm.Config",
		},
		"a constructor that fails": {
			fx.Provide(ccm.AsParams(func() (ccm.Params, error) { return ccm.Params{}, boom })),
			"TestAsParams_WrongWiring_IsAnErrorOfNew",
		},
		"a constructor that lacks a dependency": {
			fx.Provide(ccm.AsParams(func(*testing.B) ccm.Params { return p })), "*testing.B",
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			err := fx.New(fx.NopLogger, ccm.Module, fx.Supply(p.Logger), c.app).Err()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want an error that says %q, got: %v", c.want, err)
			}
		})
	}
}
