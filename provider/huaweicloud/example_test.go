package huaweicloud_test

import (
	"fmt"
	"os"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/huaweicloud"
)

// In an fx app, with the environment variables.
func ExampleWithEnvironment() {
	newProvider := func() ccm.Provider {
		return huaweicloud.Provider(huaweicloud.WithEnvironment(os.Getenv))
	}
	_ = fx.Options(
		ccm.Module,
		fx.Provide(ccm.AsProvider(newProvider)),
		fx.Supply(ccm.DefaultConfig()),
	)
}

// With the file that ccm.Config (--cloud-config) names.
func ExampleProvider() {
	cfg := ccm.DefaultConfig()
	cfg.CloudProvider.Name = huaweicloud.Name
	cfg.CloudProvider.ConfigFile = "/etc/kubernetes/huaweicloud.yaml"
	_, err := ccm.New(ccm.Params{
		Config: cfg, Providers: []ccm.Provider{huaweicloud.Provider()},
	})
	fmt.Println(err != nil) // because the file does not exist
	// Output: true
}
