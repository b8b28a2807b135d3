package registered

import (
	"context"
	"errors"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// Provider returns the provider that is registered under the name, for a [ccm.Manager]. Its
// configuration is read from [ccm.ProviderEnv].ConfigFile; without a file the factory gets nil, as
// in upstream.
//
// The name is looked up in each term. A provider that is not registered, a file that cannot be
// read, and a factory that fails, panics or returns nil are errors of the provider's New, after
// which the Manager retries. [Module] detects a wrong name earlier. New ends with its context,
// except while a factory runs, which cannot be interrupted.
func Provider(name string) ccm.Provider {
	return ccm.Provider{
		Name: name,
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return build(ctx, name, env)
		},
	}
}

func build(ctx context.Context, name string, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	cfg, err := openConfig(env.ConfigFile)
	if err != nil {
		return nil, err
	}
	// Another Manager's factory may have locked the registry for long.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// The registry unlocks itself when a factory panics.
	cloud, err := construct(env, func() (cloudprovider.Interface, error) {
		return cloudprovider.GetCloudProvider(name, cfg.reader)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("build it %s: %w", cfg, err)
	case cloud == nil:
		return nil, fmt.Errorf("build it %s: its factory returned neither a cloud nor an error",
			cfg)
	}
	return cloud, nil
}

// check returns what is wrong with a name. The registry cannot list its names.
func check(name string) error {
	switch {
	case name == "":
		return errors.New("a registered cloud provider needs the name that it is registered under")
	case cloudprovider.IsExternal(name):
		return fmt.Errorf(
			"%q is not a cloud provider: it tells kubelets that a cloud controller manager runs, "+
				"and this is one; give the name of the cloud", name)
	case !cloudprovider.IsCloudProvider(name):
		return fmt.Errorf("no cloud provider is registered under the name %q: "+
			"the program has to import the package that registers it, and names are case-sensitive",
			name)
	}
	return nil
}
