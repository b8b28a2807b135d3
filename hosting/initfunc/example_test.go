package initfunc_test

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/initfunc"
	"github.com/fxccm/fxccm/provider/fake"
)

// startNodeIPAM starts a controller as in a program that uses upstream's command.
func startNodeIPAM(
	initContext app.ControllerInitContext, completedConfig *config.CompletedConfig,
	_ cloudprovider.Interface,
) app.InitFunc {
	return func(ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (
		controller.Interface, bool, error,
	) {
		if !completedConfig.ComponentConfig.KubeCloudShared.AllocateNodeCIDRs {
			return nil, false, nil
		}
		client := controllerContext.ClientBuilder.ClientOrDie(initContext.ClientName)
		nodes := controllerContext.InformerFactory.Core().V1().Nodes()
		_, _ = client, nodes.Informer()
		go func() { <-ctx.Done() }() // the controller's Run(ctx)
		return nil, true, nil
	}
}

// A Manager runs the constructors that a program gave to app.NewCloudControllerManagerCommand.
func Example() {
	constructors := map[string]app.ControllerInitFuncConstructor{
		"node-ipam-controller": {
			InitContext: app.ControllerInitContext{ClientName: "node-controller"},
			Constructor: startNodeIPAM,
		},
	}
	aliases := map[string]string{"nodeipam": "node-ipam-controller"}

	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"nodeipam"} // --controllers, by name or alias
	cfg.AllocateNodeCIDRs, cfg.ClusterCIDR = true, "10.244.0.0/16"
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: initfunc.Controllers(constructors, aliases),
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range m.Status().Controllers {
		fmt.Println(c.Name, c.State)
	}
	// A host would now call m.Run(ctx).

	// Output:
	// cloud-node-controller disabled
	// cloud-node-lifecycle-controller disabled
	// node-ipam-controller waiting
	// node-route-controller disabled
	// service-lb-controller disabled
}

// A controller that replaces one of the Manager's four has another name, and the Manager's
// controller is turned off. Here, with fx, the replacement is upstream's own node controller.
func ExampleController() {
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"*", "-" + names.CloudNodeController}

	host := fx.Options(
		ccm.Module,
		fx.NopLogger,
		fake.Module(fake.New()),
		fx.Supply(cfg),
		fx.Provide(func() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:6443"} }),
		fx.Provide(ccm.AsController(func() ccm.Controller {
			constructor := app.DefaultInitFuncConstructors[names.CloudNodeController]
			constructor.InitContext.ClientName = "mycloud-node-controller"
			return initfunc.Controller("mycloud-node-controller", constructor)
		})),
	)
	fmt.Println("complete:", fx.ValidateApp(host) == nil)
	// Output:
	// complete: true
}
