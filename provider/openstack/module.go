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
// *Config, is the configuration; otherwise it is the file in ccm.Config. [Configure] adds options.
// With several Managers in one app, [Provider] belongs into the Params of each.
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
	Options   []Option          `group:"provider/openstack.options"`
	Graph     fx.DotGraph
}

func fromApp(app appParams) (ccm.Provider, error) {
	if err := fxinput.Dropped(app, app.Graph); err != nil {
		return ccm.Provider{}, fmt.Errorf("provider/openstack: %w", err)
	}
	given := app.ConfigPtr
	if !reflect.ValueOf(app.Config).IsZero() {
		if given != nil {
			return ccm.Provider{}, errors.New(
				"provider/openstack: the app has a Config and a *Config: keep one of them")
		}
		given = &app.Config
	}
	if given != nil {
		app.Options = append(app.Options, WithConfig(*given))
	}
	return Provider(app.Options...), nil
}
