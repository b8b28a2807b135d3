package ccmtest

import (
	"testing"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
)

// app returns the options of the fx app: a minimal host, or the host under test.
func (p *parts) app(t testing.TB) fx.Option {
	t.Helper()
	controllers := fx.Options()
	for _, c := range p.controllers {
		controllers = fx.Options(controllers, fx.Provide(ccm.AsController(func() ccm.Controller {
			return c
		})))
	}
	extra := fx.Options(controllers, fx.Options(p.extra...))
	if len(p.host) > 0 {
		return p.hostApp(t, fx.Options(fx.Options(p.host...), extra))
	}
	return fx.Options(
		ccm.Module,
		extra,
		fx.Provide(ccm.AsProvider(func() ccm.Provider { return p.chosen })),
		fx.Supply(p.config(p.ccm.Identity), p.ccm.config, p.log),
		p.supplyElector(),
	)
}

// hostApp returns a host's app with the cloud, the API server and the election replaced.
// fx.Decorate needs a type that is provided, fx.Provide one that is not, and a host may or may not
// have a *rest.Config and an Elector. So it returns the first combination that makes a valid app.
// Validation runs no constructor.
func (p *parts) hostApp(t testing.TB, host fx.Option) fx.Option {
	t.Helper()
	host = fx.Options(host,
		ccm.ReplaceProviders(p.chosen),
		fx.Decorate(func(cfg ccm.Config) ccm.Config {
			return p.hostConfig(cfg, p.ccm.Identity, p.chosen)
		}),
	)
	var first error
	for _, server := range []fx.Option{fx.Replace(p.ccm.config), fx.Supply(p.ccm.config)} {
		for _, election := range []fx.Option{p.replaceElector(), p.supplyElector()} {
			app := fx.Options(host, server, election)
			err := fx.ValidateApp(app, fx.Invoke(func(*ccm.Manager) {}), fx.NopLogger)
			if err == nil {
				return app
			}
			first = err
		}
	}
	t.Fatalf("the options given to ccmtest.WithHost make no valid app: %v", first)
	return nil
}

func (p *parts) supplyElector() fx.Option {
	if p.voter == nil {
		return fx.Options()
	}
	return fx.Supply(fx.Annotate(p.voter, fx.As(new(ccm.Elector))))
}

func (p *parts) replaceElector() fx.Option {
	if p.voter == nil {
		return fx.Options()
	}
	return fx.Replace(fx.Annotate(p.voter, fx.As(new(ccm.Elector))))
}
