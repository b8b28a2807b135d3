package fake

import (
	"context"
	"fmt"

	"go.uber.org/fx"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// Module gives the cloud to an fx app with ccm.Module, as its provider.
func Module(cloud *Cloud, opts ...ProviderOption) fx.Option {
	return fx.Module("provider/fake",
		fx.Provide(ccm.AsProvider(func() ccm.Provider { return cloud.CCMProvider(opts...) })),
	)
}

// CCMProvider returns the cloud as the provider of a [ccm.Manager]. Its name is the cloud's. Each
// term opens its own view, whose calls are recorded under [TermCaller] unless opts set another
// caller.
func (c *Cloud) CCMProvider(opts ...ProviderOption) ccm.Provider {
	return ccm.Provider{
		Name: c.name,
		New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return c.Provider(inTerm(env, opts)...), nil
		},
	}
}

// TermCaller is the caller in the record for one term of one [ccm.Manager]: the name in the
// election, and the number of the term.
func TermCaller(identity string, term uint64) string {
	return fmt.Sprintf("%s/term-%d", identity, term)
}

func inTerm(env ccm.ProviderEnv, opts []ProviderOption) []ProviderOption {
	return append([]ProviderOption{WithCaller(TermCaller(env.Identity, env.Term))}, opts...)
}
