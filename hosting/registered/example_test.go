package registered_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.uber.org/fx"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/provider/fake"
)

// registerAcme does the same as a provider's package when a program imports it.
func registerAcme() {
	if !cloudprovider.IsCloudProvider("acme") {
		cloudprovider.RegisterCloudProvider("acme",
			func(io.Reader) (cloudprovider.Interface, error) {
				return fake.New(fake.WithProviderName("acme")).Provider(), nil
			})
	}
}

func ExampleModule() {
	registerAcme() // in a program: import _ "example.com/acme/cloud-provider"

	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"
	cfg.CloudProvider.ConfigFile = "/etc/kubernetes/cloud.conf"
	var manager *ccm.Manager
	app := fx.New(
		fx.NopLogger,
		ccm.Module,
		registered.Module("acme"),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Populate(&manager),
	)
	fmt.Println(manager.Status().Provider, app.Err())
	// Output:
	// acme <nil>
}

// newNimbus is the constructor of a provider that does not register itself.
func newNimbus(podCIDR string, nodes corelisters.NodeLister) (cloudprovider.Interface, error) {
	if podCIDR == "" || nodes == nil {
		return nil, errors.New("nimbus needs the CIDR of the pods and a node lister")
	}
	return fake.New(fake.WithProviderName("nimbus")).Provider(), nil
}

// A constructor takes its parameters from the environment of the term.
func ExampleFactory() {
	nimbus := registered.Factory("nimbus",
		func(env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return newNimbus(env.Config.ClusterCIDR, env.Informers.Core().V1().Nodes().Lister())
		})

	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"
	manager, err := ccm.New(ccm.Params{
		Config:     cfg,
		Providers:  []ccm.Provider{nimbus},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	fmt.Println(manager.Status().Provider, err)
	// Output:
	// nimbus <nil>
}

// A cloud that owns a port is built once, and serves all terms of a Manager.
func ExampleShared() {
	hostStops := make(chan struct{}) // the host closes it at its own end
	defer close(hostStops)
	nimbus := registered.Factory("nimbus",
		func(env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return newNimbus(env.Config.ClusterCIDR, env.Informers.Core().V1().Nodes().Lister())
		})
	manager, err := ccm.New(ccm.Params{
		Config:     ccm.DefaultConfig(),
		Providers:  []ccm.Provider{registered.Shared(nimbus, hostStops)},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	fmt.Println(manager.Status().Provider, err)
	// Output:
	// nimbus <nil>
}

func ExampleProvider() {
	registerAcme()

	cloud, err := registered.Provider("acme").New(context.Background(), ccm.ProviderEnv{})
	fmt.Println(cloud.ProviderName(), err)

	_, err = registered.Provider("acme").New(context.Background(),
		ccm.ProviderEnv{ConfigFile: "/missing.conf"})
	fmt.Println(err)
	// Output:
	// acme <nil>
	// read the cloud provider's configuration file: stat /missing.conf: no such file or directory
}
