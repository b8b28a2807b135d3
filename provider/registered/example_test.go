package registered_test

import (
	"context"
	"fmt"
	"io"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/provider/registered"
)

// registerAcme is what a provider's package does when a program imports it.
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
