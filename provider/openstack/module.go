package openstack

import (
	"slices"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Module adds the provider to an fx app with ccm.Module. A *[cloudconf.Config] in the app is the
// configuration; otherwise it is the file in ccm.Config. With several CCMs in one app, pass
// [Provider] to the AsProvider of a CCM.
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
