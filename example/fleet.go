package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"go.uber.org/fx"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/controllers/persistentvolumelabel"
	"github.com/fxccm/fxccm/example/fleet"
	managed "github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const fleetAbout = `Run the cloud controller managers of many clusters. Several replicas divide the clusters among them; each cluster is
served by one replica at a time, under a Lease in the management cluster.

Usage:
  fxccm fleet --cloud-provider=openstack [flags]     the clusters of Cluster API
  fxccm fleet --cloud-provider=openstack --clusters=secrets --clusters-namespace=clusters [flags]
  fxccm fleet status --help

--kubeconfig is that of the management cluster. --cloud-config is for clusters that have no configuration of their own.
The other flags of fxccm apply to each cluster: see fxccm --help.
`

// runFleet is "fxccm fleet" from its arguments to its exit code.
func runFleet(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "status" {
		return runFleetStatus(args[1:], stdout, stderr)
	}
	flags := options.New()
	fleet.Defaults(flags)
	cmd := newCommandLine(flags)
	var config fleet.Config
	set := pflag.NewFlagSet("fleet", pflag.ContinueOnError)
	config.AddFlags(set)
	cmd.all.AddFlagSet(set)
	return server{
		commandLine: cmd, name: "fxccm fleet",
		printHelp: func(out io.Writer) {
			_, _ = fmt.Fprintf(out, "%s\nFlags:\n%s", fleetAbout, set.FlagUsages())
		},
		newApp: func(each options.Configuration) (*fx.App, error) {
			if err := config.Check(cmd.all); err != nil {
				return nil, err
			}
			return newFleetApp(config, each)
		},
	}.run(args, stdout, stderr)
}

// newFleetApp is the whole fleet.
func newFleetApp(config fleet.Config, each options.Configuration) (*fx.App, error) {
	params, err := config.Params(each.Config, fleet.Host{
		Providers: map[string]func(*managed.Cluster) (ccm.Provider, error){
			openstack.Name: openStackOf(config.Cloud, each.Config.CloudProvider.ConfigStrict),
			fakeName: func(of *managed.Cluster) (ccm.Provider, error) {
				return newFakeProvider(of.CloudConfig)
			},
		},
		Controllers: []ccm.Controller{persistentvolumelabel.Controller(), nodeipam.Controller()},
		Registerer:  legacyregistry.Registerer(),
	})
	if err != nil {
		return nil, err
	}
	fleet.SaveMemory()
	return fx.New(
		fx.Supply(params, each.Serving), fleet.Module,
		fx.StopTimeout(each.Config.DrainTimeout.Duration+stopReserve), fx.WithLogger(logEvents),
	), nil
}

// openStackOf returns OpenStack's provider for the cloud.conf of a cluster. Clusters with the same
// credentials share logins and the budget of requests.
func openStackOf(
	config openstack.SharedConfig, strict bool,
) func(*managed.Cluster) (ccm.Provider, error) {
	shared := openstack.WithShared(openstack.NewShared(config))
	parse := func(data []byte) (cloudconf.Config, error) {
		config, _, err := cloudconf.Parse(data, cloudconf.Options{Strict: strict})
		if err != nil {
			return config, fmt.Errorf("the cluster's cloud.conf: %w", err)
		}
		return config, nil
	}
	return func(of *managed.Cluster) (ccm.Provider, error) {
		if of.CloudConfig == nil {
			return openstack.Provider(shared, openstack.WithEnvironment(os.Getenv)), nil
		}
		config, err := parse(of.CloudConfig)
		if err != nil {
			return ccm.Provider{}, err
		}
		live := openstack.NewLiveConfig(config)
		of.OnCloudConfig(func(ctx context.Context, data []byte) (isKept bool, err error) {
			next, err := parse(data)
			if err != nil {
				return false, err
			}
			return live.Replace(ctx, next)
		})
		return openstack.Provider(shared, openstack.WithLiveConfig(live)), nil
	}
}
