package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/fxhook"
)

// Module runs a [Host] in an fx app, beside [ccm.Module]. It takes from the app a *rest.Config, a
// [Config], and optionally a logr.Logger or *slog.Logger for a Config without one. It provides the
// *[Host], and for the cloud controller manager a [election.Elector], an
// informers.SharedInformerFactory and a prometheus.Registerer.
//
// Fx stops the cloud controller manager first, while the lease is still renewed. If runnables do
// not end with their manager, the module shuts the app down with [ccm.ExitDrainTimeout]. An app
// starts once, because stopped informers cannot start again. If fx skips the stop, as described at
// [ccm.Module], the Host stops by itself.
var Module = fx.Module("controllerruntime",
	fx.Provide(
		fromApp,
		func(h *Host) election.Elector { return h.Elector() },
		(*Host).Informers,
		func() prometheus.Registerer { return metrics.Registry },
	),
	fx.Invoke(runInApp),
)

type inputs struct {
	fx.In

	RESTConfig *rest.Config
	Config     Config
	LoggerPtr  *logr.Logger `optional:"true"`
	Logger     logr.Logger  `optional:"true"`
	Slog       *slog.Logger `optional:"true"`
}

func fromApp(in inputs) (*Host, error) {
	log := &in.Config.Options.Logger
	switch {
	case log.GetSink() != nil:
	case in.LoggerPtr != nil:
		*log = *in.LoggerPtr
	case in.Logger.GetSink() != nil:
		*log = in.Logger
	case in.Slog != nil:
		*log = logr.FromSlogHandler(in.Slog.Handler())
	}
	return New(in.RESTConfig, in.Config)
}

func runInApp(lifecycle fx.Lifecycle, h *Host, app fx.Shutdowner) {
	var (
		cancel context.CancelFunc
		done   chan struct{}
	)
	lifecycle.Append(fxhook.Guard(lifecycle, h.options.Logger, fx.Hook{
		OnStart: func(context.Context) error {
			var campaigning context.Context
			campaigning, cancel = context.WithCancel(context.Background())
			done = make(chan struct{})
			go func() {
				defer close(done)
				err := h.campaignUntil(campaigning)
				if err == nil {
					return
				}
				h.options.Logger.Error(err, "Shutting the app down")
				code := 1
				if errors.Is(err, ErrStillRunning) {
					code = ccm.ExitDrainTimeout
				}
				// It fails only if the app is already stopping.
				_ = app.Shutdown(fx.ExitCode(code))
			}()
			return nil
		},
		OnStop: func(ctx context.Context) error {
			cancel()
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return fmt.Errorf("controller-runtime's manager did not stop in time: %w",
					context.Cause(ctx))
			}
		},
	}))
}
