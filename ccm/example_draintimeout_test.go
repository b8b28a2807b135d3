package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// deaf returns a controller that ignores the end of its term. It calls running when it runs.
func deaf(running func(), release <-chan struct{}) ccm.Controller {
	return ccm.Controller{
		Name: "deaf",
		New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(context.Context) error {
				running()
				<-release
				return nil
			}), nil
		},
	}
}

// The host decides how to react to a term that exceeds its drain timeout. This one alerts the
// operator, and ends the process in all cases.
func ExampleDrainTimeoutPolicy() {
	alert := func(p ccm.Params) ccm.Params {
		p.OnDrainTimeout = func(err *ccm.DrainTimeoutError) {
			fmt.Println("alert: still running:", err.Running)
		}
		return p
	}
	release := make(chan struct{})
	elector := election.NewHost()
	leading, lose := context.WithCancel(context.Background())
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"deaf"}
	cfg.DrainTimeout = metav1.Duration{Duration: 10 * time.Millisecond}
	app := fx.New(fx.NopLogger,
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}, logr.Discard(), elector),
		fx.Provide(ccm.AsController(func() ccm.Controller { return deaf(lose, release) })),
		fx.Supply(ccm.ShutDownOnDrainTimeout),
		fx.Decorate(alert),
	)
	if err := app.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	ended := app.Wait()

	// No call can act any more, so the host may release its leadership.
	fmt.Println("leadership ended:", elector.Lead(leading, election.Grant{}))
	fmt.Println("exit code", (<-ended).ExitCode)
	close(release)
	_ = app.Stop(context.Background())
	// Unordered output:
	// alert: still running: [controller deaf]
	// leadership ended: <nil>
	// exit code 3
}

// A host with more important parts continues without its cloud controller manager.
func ExampleKeepRunning() {
	app := fx.Options(
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Supply(ccm.KeepRunning),
	)
	fmt.Println("complete:", fx.ValidateApp(app) == nil)
	// Output: complete: true
}

// A host without fx finds the stuck activities in Run's error. The Manager's lease expires.
func ExampleDrainTimeoutError() {
	release := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"deaf"}
	cfg.DrainTimeout = metav1.Duration{Duration: 10 * time.Millisecond}
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{deaf(stop, release)},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:     &election.Alone{},
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var timedOut *ccm.DrainTimeoutError
	if errors.As(m.Run(ctx), &timedOut) {
		fmt.Println("still running:", timedOut.Running)
	}
	close(release)
	// Output: still running: [controller deaf]
}
