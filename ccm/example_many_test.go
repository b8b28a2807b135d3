package ccm_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

func cloudOf(site string) fake.Option { return fake.WithProviderName("cloud-" + site) }

// siteParams returns a constructor of the Params of a site's Manager. It may have dependencies.
func siteParams(site string) func() ccm.Params {
	return func() ccm.Params {
		cfg := ccm.DefaultConfig()
		cfg.ClusterName = site
		return ccm.Params{
			Name:       site,
			Config:     cfg,
			Providers:  []ccm.Provider{fake.New(cloudOf(site)).CCMProvider()},
			RESTConfig: &rest.Config{Host: "https://" + site + ".internal:6443"},
		}
	}
}

// If the Managers are known in advance, each has a constructor of its Params.
func ExampleAsParams() {
	var managers ccm.Managers
	app := fx.New(
		fx.NopLogger,
		ccm.Module,
		fx.Provide(
			ccm.AsParams(siteParams("east")),
			ccm.AsParams(siteParams("west")),
		),
		fx.Populate(&managers),
	)
	if err := app.Err(); err != nil {
		fmt.Println(err)
		return
	}
	for name, m := range managers {
		fmt.Println(name, "runs cluster", m.Config().ClusterName, "with", m.Status().Provider)
	}
	// Unordered output:
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
					leading <- t.Config().ClusterName
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
			Elector:     &election.Alone{}, // a real host omits this
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
