package registered

import (
	"fmt"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
)

// Module adds the provider that is registered under the name to an fx app with ccm.Module, see
// [Provider]. An empty or unregistered name, or "external", is an error of fx.New. For a choice at
// run time, add the Module of each provider, and choose with --cloud-provider.
func Module(name string) fx.Option {
	return fx.Module("hosting/registered",
		fx.Provide(ccm.AsProvider(func() (ccm.Provider, error) {
			if err := check(name); err != nil {
				return ccm.Provider{}, fmt.Errorf("hosting/registered: %w", err)
			}
			return Provider(name), nil
		})),
	)
}
