package ccmtest_test

import (
	"context"
	"fmt"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// newRealProvider is a host's provider.
func newRealProvider() ccm.Provider {
	fmt.Println("never printed: this would log in to a cloud")
	return ccm.Provider{Name: "real"}
}

// A test that builds the app itself replaces the cloud with ccm.ReplaceProviders, at the root of
// the app. The constructor of the real provider is not called.
func Example_replaceProviders() {
	cloud := fake.New()
	var manager *ccm.Manager
	app := fx.New(
		fx.NopLogger,
		// The host's.
		ccm.Module,
		fx.Provide(ccm.DefaultConfig, ccm.AsProvider(newRealProvider)),
		// The test's.
		ccm.ReplaceProviders(cloud.CCMProvider()),
		fx.Supply(&rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Populate(&manager),
	)
	ctx := context.Background()
	if err := app.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("runs with provider", manager.Status().Provider)
	if err := app.Stop(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: runs with provider fake
}
