package ccmtest

import (
	"testing"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/fxinput"
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
		p.override(),
	)
}

// hostApp returns a host's app with the cloud, the API server and the election replaced. The
// constructors of the host's providers and of its client configuration, which may read files, are
// not called. A *rest.Config of the host needs fx.Replace, and without one the app needs fx.Supply.
// So hostApp returns the first that makes a valid app. Validation runs no constructor.
func (p *parts) hostApp(t testing.TB, host fx.Option) fx.Option {
	t.Helper()
	host = fx.Options(host, ccm.ReplaceProviders(p.chosen), p.override())
	var first error
	for _, server := range []fx.Option{fx.Replace(p.ccm.config), fx.Supply(p.ccm.config)} {
		app := fx.Options(host, server)
		err := fx.ValidateApp(app, fx.Invoke(func(*ccm.Manager) {}), fx.NopLogger)
		if err == nil {
			return app
		}
		if first == nil {
			first = err
		}
	}
	t.Fatalf("the options given to ccmtest.WithHost make no valid app: %v", first)
	return nil
}

// override replaces what a host may have set with fx.Decorate, too.
func (p *parts) override() fx.Option {
	override := fxinput.Override(func(params any) {
		of := params.(*ccm.Params)
		of.RESTConfig, of.Providers = p.ccm.config, []ccm.Provider{p.chosen}
		of.Elector = p.voter
		if len(p.host) > 0 {
			of.Config = p.hostConfig(of.Config, p.ccm.Identity, p.chosen)
		}
	})
	return fx.Supply(fx.Annotate(override, fx.ResultTags(fxinput.Overrides)))
}
