package docs_test

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
)

// The hosts of the examples have an API server without clients, and a controller that ends the
// program as soon as it runs.

func hostRESTConfig() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

func newMine(app fx.Shutdowner) ccm.Controller {
	return ccm.Controller{
		Name: "mine", NeedLeaderElection: new(false),
		New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				fmt.Println("mine runs")
				if err := app.Shutdown(); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}), nil
		},
	}
}

// announces is a controller that calls leading when the Manager leads, and ended when it stops
// leading.
func announces(leading, ended func(*ccm.Term, error)) ccm.Controller {
	return ccm.Controller{
		Name: "announces",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				leading(t, nil)
				<-ctx.Done()
				ended(t, context.Cause(ctx))
				return nil
			}), nil
		},
	}
}

func nothing(*ccm.Term, error) {}

// silence returns a logger that discards all entries. fx cannot supply logr.Discard() as a value,
// because it is the zero Logger.
func silence() *logr.Logger {
	log := logr.Discard()
	return &log
}

// onlyAnnounces is a configuration without the four controllers, which need an API server.
func onlyAnnounces() ccm.Config {
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"announces"}
	return cfg
}
