package ccm_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// A host without fx calls New, which reports configuration errors, and Run, which works until its
// context ends.
func Example() {
	cfg := ccm.DefaultConfig()
	cfg.LeaderElection.LeaderElect = false // a real host leaves this on
	cfg.Controllers = []string{"heartbeat"}
	log := logr.Discard()

	var stop context.CancelFunc
	heartbeat := ccm.Controller{
		Name: "heartbeat",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				fmt.Println("term", t.Number(), "of cluster", t.Config().ClusterName)
				stop()
				<-ctx.Done()
				return nil
			}), nil
		},
	}
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{heartbeat},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	stop = cancel // here the controller ends the Manager
	err = m.Run(ctx)
	fmt.Println("ended with", err, "and is", m.Status().State)
	// Output:
	// term 1 of cluster kubernetes
	// ended with <nil> and is stopped
}

// An invalid configuration is an error that names the field.
func ExampleNew_badConfiguration() {
	cfg := ccm.DefaultConfig()
	cfg.Service.ConcurrentSyncs = 0
	cfg.Controllers = []string{"cloud-node", "-rout"}
	_, err := ccm.New(ccm.Params{Config: cfg})
	var invalid *ccm.ConfigError
	if errors.As(err, &invalid) {
		for _, field := range invalid.Fields {
			fmt.Println(field.Field+":", field.Type)
		}
	}
	// Output:
	// service.concurrentSyncs: Invalid value
	// cloudProvider.name: Required value
	// controllers[1]: Unsupported value
}

// A host with fx adds the module, a provider, a configuration, and its own values.
func ExampleModule() {
	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"

	app := fx.Options(
		ccm.Module,
		fake.Module(fake.New()), // a cloud provider
		fx.Supply(cfg),
		fx.Provide(func() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:6443"} }),
		fx.Provide(ccm.AsController(func() ccm.Controller { return idle("mine") })),
	)
	fmt.Println("complete:", fx.ValidateApp(app) == nil)
	// A host would now call fx.New(app).Run().
	// Output:
	// complete: true
}
