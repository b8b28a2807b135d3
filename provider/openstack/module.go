package openstack

import (
	"slices"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Module gives the provider to an fx app with ccm.Module. If the app has a *[cloudconf.Config], that is the configuration; else it is the
// file that ccm.Config names. For an instance of several, give [Provider] by the AsProvider of the instance.
func Module(opts ...Option) fx.Option {
	return fx.Module("provider/openstack", fx.Provide(ccm.AsProvider(func(app struct {
		fx.In
		Config *cloudconf.Config `optional:"true"`
	},
	) ccm.Provider {
		if app.Config == nil {
			return Provider(opts...)
		}
		return Provider(append(slices.Clone(opts), WithConfig(*app.Config))...)
	})))
}
