package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/fxinput"
)

// Module serves the endpoints of the app's Manager on the secure port. It goes beside
// [ccm.Module], in either order. It takes from the app
//
//   - the *[ccm.Manager], and a [Config] or a *Config,
//   - options given with [Configure], or one [Option],
//   - optionally a logr.Logger or *slog.Logger, and a prometheus.Gatherer or else a
//     *prometheus.Registry, whose metrics are served, too,
//
// and provides a *[Server]. An invalid configuration is an error of fx.New. A port that cannot be
// opened is an error of OnStart, which does not wait for the API server.
//
// The port opens before the Manager starts, and closes after it has drained: a readiness probe sees
// the drain. Requests in flight may use the rest of the stop's deadline.
var Module = fx.Module("ccm-serving",
	fx.Provide(
		newPort,
		ccm.AsSurroundingHook(func(p *port) fx.Hook {
			return fx.Hook{OnStart: p.start, OnStop: p.stop}
		}),
		fromApp,
	),
	fx.Invoke(func(p *port, s *Server) { p.server = s }),
)

const optionGroup = `group:"ccm.serving.options,flatten"`

// Configure passes options to [Module].
func Configure(opts ...Option) fx.Option {
	return fx.Provide(fx.Annotate(func() []Option { return opts }, fx.ResultTags(optionGroup)))
}

type fromAppParams struct {
	fx.In

	Manager     *ccm.Manager
	Config      servingconfig.Config  `optional:"true"`
	ConfigPtr   *servingconfig.Config `optional:"true"`
	Option      Option                `optional:"true"`
	Options     []Option              `group:"ccm.serving.options"`
	Gatherer    prometheus.Gatherer   `optional:"true"`
	Registry    *prometheus.Registry  `optional:"true"`
	Logger      *logr.Logger          `optional:"true"`
	LoggerValue logr.Logger           `optional:"true"`
	Slog        *slog.Logger          `optional:"true"`

	Graph fx.DotGraph
}

func fromApp(p fromAppParams) (*Server, error) {
	if err := fxinput.Dropped(p, p.Graph); err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	if p.ConfigPtr != nil {
		if !reflect.ValueOf(p.Config).IsZero() {
			return nil, errors.New("serving: the app has a Config and a *Config: keep one of them")
		}
		p.Config = *p.ConfigPtr
	}
	if reflect.ValueOf(p.Config).IsZero() {
		return nil,
			errors.New(
				"serving: no Config in the app: add fx.Supply(cfg) with a cfg that began as servingconfig.Default()")
	}
	var opts []Option
	switch {
	case p.Logger != nil:
		opts = append(opts, WithLogger(*p.Logger))
	case p.LoggerValue.GetSink() != nil:
		opts = append(opts, WithLogger(p.LoggerValue))
	case p.Slog != nil:
		opts = append(opts, WithLogger(logr.FromSlogHandler(p.Slog.Handler())))
	}
	switch {
	case p.Gatherer != nil:
		opts = append(opts, WithEndpoints(endpoints.WithGatherers(p.Gatherer)))
	case p.Registry != nil:
		opts = append(opts, WithEndpoints(endpoints.WithGatherers(p.Registry)))
	}
	if p.Option != nil {
		opts = append(opts, p.Option)
	}
	return New(p.Manager, p.Config, append(opts, p.Options...)...)
}

// port connects a Server to an app's lifecycle. Its hook is created before the Manager and the
// Server, so that it surrounds the Manager's hook.
type port struct {
	server *Server
	run    *run
}

func newPort() *port { return &port{} }

func (p *port) start(ctx context.Context) error {
	run, err := p.server.start(ctx)
	p.run = run
	return err
}

func (p *port) stop(ctx context.Context) error {
	if p.run == nil {
		return nil
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopGrace)
		defer cancel()
	}
	run := p.run
	p.run = nil
	return run.stop(ctx)
}
