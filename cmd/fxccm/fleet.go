package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/fx"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/cmd/fxccm/fleet"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/controllers/persistentvolumelabel"
	managed "github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const fleetAbout = `Run the cloud controller managers of many clusters. Several replicas divide the clusters among them; each cluster is
served by one replica at a time, under a Lease in the management cluster.

--kubeconfig is that of the management cluster. --cloud-config is for clusters that have no configuration of their own.
The other flags of fxccm apply to each cluster: see fxccm --help.`

const fleetExample = `  # The clusters of Cluster API
  fxccm fleet --cloud-provider=openstack

  # The clusters whose kubeconfigs are in Secrets of a namespace
  fxccm fleet --cloud-provider=openstack --clusters=secrets --clusters-namespace=clusters`

// newFleetCommand is "fxccm fleet".
func newFleetCommand(stderr io.Writer) *cobra.Command {
	flags := options.New()
	fleet.Defaults(flags)
	line := newCommandLine(flags)
	var config fleet.Config
	set := pflag.NewFlagSet("fleet", pflag.ContinueOnError)
	config.AddFlags(set)
	cli.SetTitle(set, titleOf(set.Name()))
	line.all.AddFlagSet(set)
	cmd := &cobra.Command{
		Use: "fleet [flags]", Short: "Run the CCMs of many clusters", Long: fleetAbout,
		Example: fleetExample, DisableFlagsInUseLine: true,
	}
	line.serve(cmd, stderr, func(
		each options.Configuration, tracer ccm.Tracer,
	) (*fx.App, error) {
		if err := config.Check(line.all); err != nil {
			return nil, cli.Usagef("%w", err)
		}
		return newFleetApp(config, each, tracer)
	})
	cmd.AddCommand(newFleetStatusCommand())
	cli.ShowOnly(cmd, titleOf(set.Name()))
	return cmd
}

// newFleetApp is the whole fleet.
func newFleetApp(
	config fleet.Config, each options.Configuration, tracer ccm.Tracer,
) (*fx.App, error) {
	params, err := config.Params(each.Config, fleet.Host{
		Providers: map[string]func(*managed.Cluster) (ccm.Provider, error){
			openstack.Name: openStackOf(config.Cloud, each.Config.CloudProvider.ConfigStrict),
			fakeName:       fakeOf,
		},
		Controllers: []ccm.Controller{persistentvolumelabel.Controller(), nodeipam.Controller()},
		Registerer:  legacyregistry.Registerer(),
		Tracer:      tracer,
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

// fakeOf returns the provider of a fake cloud, whose address a cluster's own configuration names.
func fakeOf(of *managed.Cluster) (ccm.Provider, error) {
	if of.CloudConfig == nil {
		return newFakeProvider(nil, nil)
	}
	return newFakeProvider(of.CloudConfig, of.GuardTransport)
}

// openStackOf returns OpenStack's provider for the cloud.conf of a cluster. Clusters with the same
// credentials share logins and the budget of requests.
func openStackOf(
	config openstack.SharedConfig, strict bool,
) func(*managed.Cluster) (ccm.Provider, error) {
	shared := openstack.WithShared(openstack.NewShared(config))
	parse := func(data []byte) (cloudconf.Config, error) {
		config, _, err := cloudconf.Parse(data, cloudconf.Options{Strict: strict, NoFiles: true})
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
		return openstack.Provider(shared, openstack.WithLiveConfig(live),
			openstack.WithTransport(of.GuardTransport)), nil
	}
}
