package openstack_test

import (
	"testing"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/suite"
)

func TestFx_TheModuleTakesItsConfigurationFromTheAppOrFromTheFile(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*site, *ccm.Config) fx.Option{
		"app": func(s *site, _ *ccm.Config) fx.Option {
			cfg := s.config()
			return fx.Supply(&cfg)
		},
		"file": func(s *site, c *ccm.Config) fx.Option {
			c.CloudProvider.ConfigFile = writeConf(s.t,
				s.CloudConf(openstacktest.PasswordAuth)+quick)
			return fx.Options()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			m := s.addServer("fx-" + name)
			cfg, log := managerConfig(), &journal{}
			given := give(s, &cfg)
			elector := ccmtest.NewManualElector()
			elector.Lead()
			var manager *ccm.Manager
			app := fxtest.New(t, ccm.Module, openstack.Module(), given, fx.NopLogger,
				fx.Supply(cfg, s.secrets.watch(suite.Confine(t, shared.Identity)), log.logger()),
				fx.Supply(fx.Annotate(elector, fx.As(new(ccm.Elector)))),
				fx.Populate(&manager))
			app.RequireStart()
			defer app.RequireStop()
			ccmtest.WaitReady(t, manager)
			tainted(t, m.name)
			if got := initialised(t, m.name).Spec.ProviderID; got != m.providerID() {
				t.Errorf("provider ID %q, want %q", got, m.providerID())
			}
			s.secrets.scan("the log", log.String())
		})
	}
}
