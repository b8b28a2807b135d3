package openstack

import (
	"errors"
	"fmt"
	"reflect"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/fxinput"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Module adds the provider to an fx app with ccm.Module. A [cloudconf.Config] in the app, or a
// *[cloudconf.Config], is the configuration; otherwise it is the file in ccm.Config. [Configure]
// adds options. The app may also have one as an [Option]. With several Managers in one app,
// [Provider] belongs into the Params of each.
var Module = fx.Module("provider/openstack", fx.Provide(ccm.AsProvider(fromApp)))

const optionGroup = `group:"provider/openstack.options,flatten"`

// Configure passes options to [Module].
func Configure(opts ...Option) fx.Option {
	return fx.Provide(fx.Annotate(func() []Option { return opts }, fx.ResultTags(optionGroup)))
}

type appParams struct {
	fx.In

	Config    cloudconf.Config  `optional:"true"`
	ConfigPtr *cloudconf.Config `optional:"true"`
	Option    Option            `optional:"true"`
	Options   []Option          `group:"provider/openstack.options"`
	Graph     fx.DotGraph
}

func fromApp(app appParams) (ccm.Provider, error) {
	if err := fxinput.Dropped(app, app.Graph); err != nil {
		return ccm.Provider{}, fmt.Errorf("provider/openstack: %w", err)
	}
	if app.Option != nil {
		app.Options = append(app.Options, app.Option)
	}
	hasConfig := !reflect.ValueOf(app.Config).IsZero()
	switch {
	case hasConfig && app.ConfigPtr != nil:
		return ccm.Provider{}, errors.New("provider/openstack: the app has a cloudconf.Config " +
			"and a *cloudconf.Config: keep one of them")
	case hasConfig:
		app.Options = append(app.Options, WithConfig(app.Config))
	case app.ConfigPtr != nil:
		app.Options = append(app.Options, WithConfig(*app.ConfigPtr))
	}
	return Provider(app.Options...), nil
}
