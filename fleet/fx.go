package fleet

import (
	"context"
	"fmt"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/fxhook"
)

// Module runs a [Fleet] in an fx app. It takes [Params] from the app (fx.Supply or fx.Provide), and
// provides a *[Fleet]. With invalid Params, fx.New fails. OnStart only starts the fleet. OnStop
// drains all Managers within the hook's deadline, and its error names those that did not drain. If
// fx skips OnStop, as described at [ccm.Module], the fleet stops by itself.
var Module = fx.Module("fleet", fx.Provide(New), fx.Invoke(run))

func run(lifecycle fx.Lifecycle, fleet *Fleet) {
	var (
		stop context.CancelCauseFunc
		done chan error
	)
	lifecycle.Append(fxhook.Guard(lifecycle, fleet.log, fx.Hook{
		OnStart: func(context.Context) error {
			var ctx context.Context
			ctx, stop = context.WithCancelCause(context.Background())
			done = make(chan error, 1)
			go func() { done <- fleet.Run(ctx) }()
			return nil
		},
		OnStop: func(ctx context.Context) error {
			if deadline, ok := ctx.Deadline(); ok {
				stop(ccm.StopBy(deadline))
			} else {
				stop(nil)
			}
			select {
			case err := <-done:
				return err
			case <-ctx.Done():
				return fmt.Errorf("fleet: %w", context.Cause(ctx))
			}
		},
	}))
}
