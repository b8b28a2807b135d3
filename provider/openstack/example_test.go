package openstack_test

import (
	"fmt"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// In an fx app, with the cloud.conf that --cloud-config names.
func ExampleModule() {
	cfg := ccm.DefaultConfig()
	cfg.CloudProvider.ConfigFile = "/etc/kubernetes/cloud.conf"
	_ = fx.Options(
		ccm.Module,
		openstack.Module,
		fx.Supply(cfg),
	)
}

// Without a file: the configuration is data, here that of a simulated cloud.
func ExampleWithConfig() {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	login := cloud.Credentials()

	cfg := cloudconf.Default()
	cfg.Global.AuthURL = login.AuthURL
	cfg.Global.Region = login.Region
	cfg.Global.ApplicationCredentialID = login.ApplicationCredentialID
	cfg.Global.ApplicationCredentialSecret = cloudconf.Secret(login.ApplicationCredentialSecret)

	provider := openstack.Provider(openstack.WithConfig(cfg))
	fmt.Println(provider.Name, cfg.Global.ApplicationCredentialSecret)
	// Output: openstack [redacted]
}
