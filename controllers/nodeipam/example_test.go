package nodeipam_test

import (
	"fmt"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/provider/fake"
)

func Example() {
	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR, cfg.AllocateNodeCIDRs = "10.244.0.0/16", true
	cfg.Controllers = []string{"*", nodeipam.Name}

	var manager *ccm.Manager
	app := fx.New(
		ccm.Module,
		fx.Provide(ccm.AsController(nodeipam.Controller)), // the line
		fake.Module(fake.New()),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Populate(&manager),
		fx.NopLogger,
	)
	if err := app.Err(); err != nil {
		fmt.Println(err)
		return
	}
	// A host would now call app.Run().
	for _, c := range manager.Status().Controllers {
		if c.Name == nodeipam.Name {
			fmt.Println(c.Name, c.State)
		}
	}
	// Output:
	// node-ipam-controller waiting
}
