package fleet_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	example "github.com/fxccm/fxccm/cmd/fxccm/fleet"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/waittest"
)

// Fx calls no stop hook after the context of the start has ended.
func TestModule_StartEndsInALaterHook_PortIsClosed(t *testing.T) {
	params := fleet.DefaultParams()
	params.Source, params.Management = fleet.Static(), &rest.Config{Host: "http://127.0.0.1:1"}
	params.Manager = func(fleet.Cluster) (ccm.Params, error) { return ccm.Params{}, nil }
	config := servingconfig.Default()
	config.BindAddress, config.SecurePort = "127.0.0.1", freeport.ForTest(t)
	var server *serving.Server
	app := fx.New(fx.NopLogger, example.Module, fx.Supply(params, config), fx.Populate(&server),
		fx.Invoke(func(lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.Hook{OnStart: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- app.Start(ctx) }()
	waittest.Until(t, "the port is open", func() bool { return server.Addr() != nil })
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Fatalf("Start returned %v, want the end of its context", err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	waittest.Until(t, "the port is closed", func() bool { return server.Addr() == nil })
}
