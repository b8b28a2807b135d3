package process_test

import (
	"fmt"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/hosting/registered"
)

func ExampleMain() {
	// Begin main with this call. A child serves the provider in it, and exits.
	process.Main(registered.Provider("acme")) // with import _ "example.com/acme/cloud-provider"

	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"
	var manager *ccm.Manager
	app := fx.New(
		fx.NopLogger,
		ccm.Module,
		fx.Provide(ccm.AsProvider(func() ccm.Provider {
			return process.Provider(process.Options{Name: "acme"})
		})),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Populate(&manager),
	)
	fmt.Println(manager.Status().Provider, app.Err())
	// Output: acme <nil>
}
