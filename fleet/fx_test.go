package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/waittest"
)

func TestModule_StartTimesOutInALaterHook_FleetEndsAndStartsAgain(t *testing.T) {
	params := fleet.DefaultParams()
	params.Source, params.Management = fleet.Static(), cluster.RESTConfig()
	params.Manager = func(fleet.Cluster) (ccm.Params, error) { return ccm.Params{}, nil }
	var f *fleet.Fleet
	slow := true
	app := fx.New(fx.NopLogger, fleet.Module, fx.Supply(params), fx.Populate(&f),
		fx.Invoke(func(lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.Hook{OnStart: func(ctx context.Context) error {
				if slow {
					<-ctx.Done()
				}
				return ctx.Err()
			}})
		}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := app.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Start returned %v, want its deadline", err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	// A fleet that runs refuses to run twice.
	waittest.Until(t, "the end of the fleet", func() error { return f.Run(ended) })
	slow = false
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Errorf("Stop returned %v, which is the result of the second run", err)
	}
}
