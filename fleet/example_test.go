package fleet_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// One program is the cloud controller manager of all clusters that Cluster API manages. Each has
// its cloud.conf in the Secret "<name>-cloud-config".
func Example() {
	management := &rest.Config{Host: "https://management.example.com:6443"}
	params := fleet.DefaultParams()
	params.Management = management
	params.Source = fleet.ClusterAPI(fleet.ClusterAPIConfig{Management: management})
	shared := openstack.NewShared(openstack.SharedConfig{})
	params.Manager = func(c fleet.Cluster) (ccm.Params, error) {
		cloud, _, err := cloudconf.Parse(c.CloudConfig, cloudconf.Options{})
		if err != nil {
			return ccm.Params{}, err
		}
		cfg := fleet.DefaultConfig()
		cfg.ClusterName = c.Name
		return ccm.Params{
			Config: cfg,
			Providers: []ccm.Provider{
				openstack.Provider(openstack.WithConfig(cloud), openstack.WithShared(shared)),
			},
		}, nil
	}
	f, err := fleet.New(params)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A program runs until it is asked to stop; the example stops at once.
	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(f.Run(ctx))
	// Output: <nil>
}
