package program_test

import (
	"fmt"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/program"
)

func ExampleProvider() {
	acme := program.Provider(program.Options{
		Name: "acme",
		Path: "/usr/bin/acme-cloud-controller-manager",
		Args: append(program.UpstreamArgs(),
			"--cloud-provider=acme", "--cloud-config=/etc/kubernetes/acme.conf"),
		HealthURL: program.UpstreamHealthURL,
	})

	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"
	var manager *ccm.Manager
	app := fx.New(
		fx.NopLogger,
		ccm.Module,
		fx.Provide(ccm.AsProvider(func() ccm.Provider { return acme })),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Populate(&manager),
	)
	fmt.Println(manager.Status().Provider, app.Err())
	// Output: acme <nil>
}
