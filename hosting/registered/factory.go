package registered

import (
	"context"
	"fmt"
	"runtime/debug"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Factory returns a provider for a cloud that does not register itself, and has a constructor with
// parameters of its own: a node lister, a CIDR, a client. build is called once a term, and takes
// the parameters from env. It must not wait for informers, which start later. A panic of build is
// an error of the term.
func Factory(
	name string, build func(env ccm.ProviderEnv) (cloudprovider.Interface, error),
) ccm.Provider {
	if build == nil {
		return ccm.Provider{Name: name} // an error of ccm.New
	}
	return ccm.Provider{
		Name: name,
		New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return construct(env, func() (cloudprovider.Interface, error) { return build(env) })
		},
	}
}

// construct turns a panic of a factory into an error, and logs its stack.
func construct(
	env ccm.ProviderEnv, build func() (cloudprovider.Interface, error),
) (cloud cloudprovider.Interface, err error) {
	err = rescue.Call(func() (err error) {
		cloud, err = build()
		return err
	}, func(value any) error {
		env.Logger.Error(nil, "Factory of the cloud provider panicked",
			"panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		return fmt.Errorf("its factory panicked: %v", value)
	})
	return cloud, err
}
