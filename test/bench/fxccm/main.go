// Program fxccm is what the benchmark measures: fxccm on the fake cloud or on OpenStack, with its
// secure port and the flags of upstream's command. --cloud-config names a file that holds the fake
// cloud's address, or OpenStack's cloud.conf.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/fx"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/test/bench/fakecloud"
)

func main() {
	config, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	app := fx.New(
		ccm.Module,
		serving.Module,
		fx.Supply(config.Config, config.Serving),
		fx.Provide(ccm.AsProvider(func() ccm.Provider {
			return ccm.Provider{Name: "fake", New: fakecloud.New}
		})),
		openstack.Module,
		// Its metrics are served beside Kubernetes' own, as upstream's command serves them.
		fx.Provide(func() prometheus.Registerer { return legacyregistry.Registerer() }),
		fx.NopLogger,
	)
	if err := app.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	app.Run()
}

func parse(args []string) (options.Configuration, error) {
	flags := pflag.NewFlagSet("fxccm", pflag.ContinueOnError)
	opts := options.New()
	if err := opts.AddFlags(flags); err != nil {
		return options.Configuration{}, err
	}
	if err := flags.Parse(args); err != nil {
		return options.Configuration{}, err
	}
	completed, err := opts.Complete()
	return completed.Configuration, err
}
