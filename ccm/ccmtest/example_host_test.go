package ccmtest_test

import (
	"fmt"
	"testing"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// hostOptions are the options that a host's main function gives to fx.New.
func hostOptions() fx.Option {
	return fx.Options(
		ccm.Module,
		fx.Provide(ccm.DefaultConfig),
		fx.Provide(ccm.AsProvider(func() ccm.Provider {
			fmt.Println("never printed: this would log in to a cloud")
			return ccm.Provider{Name: "real"}
		})),
	)
}

// In a real test, testHost is TestHost and takes a *testing.T.
func testHost(t testing.TB) {
	app := ccmtest.StartApp(t, cluster, fake.New(), ccmtest.WithHost(hostOptions()),
		ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.ClusterCIDR = ccmtest.ClusterCIDR }))
	fmt.Println("ready with provider", app.WaitReady().Provider)
}

// A host tests the app that its main function runs. Only the cloud, the API server and the election
// are replaced.
func ExampleWithHost() {
	asTest(testHost)
	// Output: ready with provider fake
}
