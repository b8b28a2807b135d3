package ccm_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// If the Managers are known in advance, each is a module. All values of a Manager have its name.
func ExampleNamed() {
	app := fx.Options()
	for _, site := range []string{"east", "west"} {
		module := ccm.Named(site)
		cfg := ccm.DefaultConfig()
		cfg.ClusterName = site
		app = fx.Options(app,
			module.Module(),
			module.Supply(cfg),
			module.Provide(func() *rest.Config {
				return &rest.Config{Host: "https://" + site + ".internal:6443"}
			}),
			fx.Provide(module.AsProvider(func() ccm.Provider {
				return fake.New(fake.WithProviderName("cloud-" + site)).CCMProvider()
			})),
		)
	}
	// A constructor receives a Manager by its name.
	var managers struct {
		fx.In
		East *ccm.Manager `name:"east"`
		West *ccm.Manager `name:"west"`
	}
	if err := fx.New(app, fx.NopLogger, fx.Populate(&managers)).Err(); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range []*ccm.Manager{managers.East, managers.West} {
		fmt.Println(m.Name(), "runs cluster", m.Config().ClusterName, "with", m.Status().Provider)
	}
	// Output:
	// east runs cluster east with cloud-east
	// west runs cluster west with cloud-west
}

// A host that adds and removes Managers creates them with New. Each runs in its own goroutine until
// its context ends.
func ExampleNew_many() {
	log := logr.Discard()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var (
		running sync.WaitGroup
		leading = make(chan string)
	)
	for i := range 3 {
		name := fmt.Sprintf("cluster-%d", i)
		cfg := ccm.DefaultConfig()
		cfg.ClusterName = name
		cfg.Controllers = []string{"greeter"} // a real host omits this
		greeter := ccm.Controller{
			Name: "greeter",
			New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(ctx context.Context) error {
					leading <- t.ClusterName()
					<-ctx.Done()
					return nil
				}), nil
			},
		}
		m, err := ccm.New(ccm.Params{
			Name:        name,
			Config:      cfg,
			Providers:   []ccm.Provider{fake.New().CCMProvider()},
			Controllers: []ccm.Controller{greeter},
			RESTConfig:  &rest.Config{Host: "https://" + name + ".internal:6443"},
			Elector:     ccm.AlwaysLead(), // a real host omits this
			Logger:      &log,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				fmt.Println(m.Name(), err)
			}
		})
	}
	for range 3 {
		fmt.Println(<-leading)
	}
	stop()
	running.Wait()
	// Unordered output:
	// cluster-0
	// cluster-1
	// cluster-2
}
