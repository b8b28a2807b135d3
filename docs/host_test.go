package docs_test

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
)

// The hosts of the examples have an API server without clients, and a controller that ends
// the program when it works.

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

// announces is a controller that tells when the Manager leads, and when it does not any more.
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

// silence is a logger. As a value logr.Discard() would be none to an app: it is the zero Logger.
func silence() *logr.Logger {
	log := logr.Discard()
	return &log
}

// onlyAnnounces is a configuration in which the four controllers, which need an API server, are
// off.
func onlyAnnounces() ccm.Config {
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"announces"}
	return cfg
}
