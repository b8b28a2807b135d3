// Program fleet is a replica of a fleet: it serves the clusters that a file lists, and keeps their
// Leases in a management cluster. It serves metrics, profiles and its status on a loopback port.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	example "github.com/fxccm/fxccm/cmd/fxccm/fleet"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/bench/fakecloud"
)

// A cluster is an API endpoint and its cloud.
type cluster struct {
	Name string `json:"name"`
	// Kubeconfig is a file's path.
	Kubeconfig string `json:"kubeconfig"`
	// Cloud is the address of the fake cloud; with the Provider openstack it is a cloud.conf.
	Cloud    string `json:"cloud"`
	Provider string `json:"provider,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	params := fleet.DefaultParams()
	var defaults example.Config // of "fxccm fleet"
	defaults.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	shared := openstack.NewShared(defaults.Cloud)
	params.Manager = func(c fleet.Cluster) (ccm.Params, error) { return parametersOf(c, shared) }
	flags := pflag.NewFlagSet("fleet", pflag.ContinueOnError)
	path := flags.String("clusters", "", "file that lists the clusters, as JSON")
	management := flags.String("kubeconfig", "", "kubeconfig of the management cluster")
	address := flags.String("address", "",
		"loopback address and port at which metrics, profiles and the status are served")
	flags.StringVar(&params.Name, "name", params.Name, "name of the fleet")
	flags.StringVar(&params.Namespace, "namespace", params.Namespace, "namespace of the Leases")
	flags.IntVar(&params.Weight, "weight", params.Weight, "share of the clusters")
	if err := flags.Parse(args); err != nil {
		return err
	}
	clusters, err := readClusters(*path)
	if err != nil {
		return err
	}
	params.Source = fleet.Trusted(fleet.Static(clusters...))
	if params.Management, err = clientcmd.BuildConfigFromFlags("", *management); err != nil {
		return fmt.Errorf("management cluster: %w", err)
	}
	example.SaveMemory() // as "fxccm fleet"
	f, err := fleet.New(params)
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: *address, Handler: handler(f), ReadHeaderTimeout: 10 * time.Second,
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	running.Go(func() error { return errors.Join(f.Run(ctx), server.Close()) })
	return running.Wait()
}

func readClusters(path string) ([]fleet.Cluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of clusters: %w", err)
	}
	var listed []cluster
	if err := json.Unmarshal(data, &listed); err != nil {
		return nil, fmt.Errorf("read the list of clusters %s: %w", path, err)
	}
	clusters := make([]fleet.Cluster, 0, len(listed))
	for _, c := range listed {
		config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		clusters = append(clusters,
			fleet.Cluster{
				Name: c.Name, RESTConfig: config, CloudConfig: []byte(c.Cloud),
				Labels: map[string]string{providerLabel: c.Provider},
			})
	}
	return clusters, nil
}

// providerLabel has the provider of a cluster.
const providerLabel = "provider"

// parametersOf returns the Params of a cluster's Manager: the defaults of a fleet, but for what
// the benchmark makes different for all candidates.
func parametersOf(c fleet.Cluster, shared *openstack.Shared) (ccm.Params, error) {
	config := fleet.DefaultConfig()
	config.ClusterName = c.Name
	config.ConfigureCloudRoutes = false
	if c.Labels[providerLabel] == "openstack" {
		cloud, _, err := cloudconf.Parse(c.CloudConfig, cloudconf.Options{})
		if err != nil {
			return ccm.Params{}, err
		}
		return ccm.Params{Config: config, Providers: []ccm.Provider{
			openstack.Provider(openstack.WithConfig(cloud), openstack.WithShared(shared)),
		}}, nil
	}
	open := func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
		return fakecloud.Open(ctx, env, string(c.CloudConfig), idleTimeout)
	}
	return ccm.Params{
		Config: config, Providers: []ccm.Provider{{Name: "fake", New: open}},
	}, nil
}

// idleTimeout is shorter than the rest before a measurement, which shall not count the two
// goroutines of each idle connection to the cloud.
const idleTimeout = 2 * time.Second

// handler serves what a replica serves once for all clusters.
func handler(f *fleet.Fleet) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/statusz", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(f.Status())
	})
	return mux
}
