package options_test

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/options"
)

// A host keeps its own --leader-elect. The flags of this package have a prefix.
func ExampleOptions_AddFlags() {
	flags := pflag.NewFlagSet("my-control-plane", pflag.ContinueOnError)
	flags.Bool("leader-elect", false, "the host's own election")

	opts := options.New()
	opts.Config.ClusterName = "blue" // the host's default
	if err := opts.AddFlags(flags, options.WithPrefix("ccm-")); err != nil {
		fmt.Println(err)
		return
	}
	if err := flags.Parse(
		[]string{"--ccm-controllers=*,-route", "--ccm-allocate-node-cidrs"}); err != nil {
		fmt.Println(err)
		return
	}
	completed, err := opts.Complete()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(completed.Config.ClusterName, completed.Config.Controllers)
	fmt.Println(completed.Warnings)
	// Output:
	// blue [* -route]
	// [--ccm-allocate-node-cidrs has no effect: only controllers that are selected by name, such as node-ipam-controller, allocate pod ranges]
}

func ExampleDecode() {
	cfg, err := options.Decode([]byte(`
apiVersion: fxccm.dev/v1alpha1
kind: CloudControllerManagerConfiguration
clusterName: blue
controllers: ["*", "-route"]
leaderElection:
  leaseDuration: 30s
`))
	fmt.Println(cfg.Config.ClusterName, cfg.Config.Controllers,
		cfg.Config.LeaderElection.LeaseDuration.Duration, err)

	_, err = options.Decode([]byte(`
apiVersion: fxccm.dev/v1alpha1
kind: CloudControllerManagerConfiguration
leaderElection:
  leaseDuration: 30
`))
	fmt.Println(err)
	// Output:
	// blue [* -route] 30s <nil>
	// line 5: leaderElection.leaseDuration: want a duration like 1m30s, got 30
}
