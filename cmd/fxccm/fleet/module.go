package fleet

import (
	"context"
	"net/http"

	"go.uber.org/fx"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	ccmendpoints "github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/fleet/endpoints"
	"github.com/fxccm/fxccm/internal/fxhook"
)

// Module runs a fleet with its secure port. It takes fleet.Params and servingconfig.Config from
// the app. The port opens before the fleet starts, and closes after it has drained.
var Module = fx.Options(
	fx.Module("fleet-port", fx.Provide(newServer), fx.Invoke(runServer)),
	fleet.Module,
)

func newServer(
	f *fleet.Fleet, params fleet.Params, config servingconfig.Config,
) (*serving.Server, error) {
	return serving.NewFor(params.Management, func(opts ...ccmendpoints.Option) http.Handler {
		return endpoints.NewHandler(f, opts...)
	}, config)
}

func runServer(lifecycle fx.Lifecycle, server *serving.Server, shutdowner fx.Shutdowner) {
	ctx, stop := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	lifecycle.Append(fxhook.Guard(lifecycle, klog.Background(), fx.Hook{
		OnStart: func(context.Context) error {
			go func() {
				err := server.Run(ctx)
				if err != nil && ctx.Err() == nil {
					klog.Background().Error(err, "The secure port cannot be opened")
					_ = shutdowner.Shutdown(fx.ExitCode(1)) // an error: the app already stops
				}
				done <- err
			}()
			return nil
		},
		OnStop: func(stopping context.Context) error {
			if deadline, ok := stopping.Deadline(); ok {
				stop(ccm.StopBy(deadline))
			} else {
				stop(nil)
			}
			select {
			case err := <-done:
				return err
			case <-stopping.Done():
				return context.Cause(stopping)
			}
		},
	}))
}
