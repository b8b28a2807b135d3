// Program many is a host of many control planes: a Manager for each of the clusters that a file
// lists, in one process. It serves its metrics on a loopback port.
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
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// A cluster is an API endpoint and its cloud.
type cluster struct {
	Name string `json:"name"`
	// Kubeconfig is a file's path, Cloud the address of the fake cloud.
	Kubeconfig string `json:"kubeconfig"`
	Cloud      string `json:"cloud"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "many:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("many", pflag.ContinueOnError)
	path := flags.String("clusters", "", "file that lists the clusters, as JSON")
	address := flags.String("address", "",
		"loopback address and port at which metrics and profiles are served")
	apart := flags.Duration("apart", 0, "pause between the starts of two Managers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	managers, err := newManagers(*path)
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: *address, Handler: handler(managers),
		ReadHeaderTimeout: 10 * time.Second,
	}
	var running sync.WaitGroup
	errs := make(chan error, len(managers)+1)
	running.Go(func() { errs <- ignoring(server.ListenAndServe(), http.ErrServerClosed) })
	for i, m := range managers {
		running.Go(func() {
			pause(ctx, time.Duration(i)*(*apart))
			errs <- m.Run(ctx)
		})
	}
	<-ctx.Done()
	err = server.Close()
	running.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func ignoring(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

func newManagers(path string) ([]*ccm.Manager, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of clusters: %w", err)
	}
	var clusters []cluster
	if err := json.Unmarshal(data, &clusters); err != nil {
		return nil, fmt.Errorf("read the list of clusters %s: %w", path, err)
	}
	var managers []*ccm.Manager
	for _, c := range clusters {
		m, err := c.newManager()
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		managers = append(managers, m)
	}
	return managers, nil
}

// newManager makes a Manager with the default configuration, but for what the benchmark makes
// different for all.
func (c cluster) newManager() (*ccm.Manager, error) {
	endpoint, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config := ccm.DefaultConfig()
	config.ClusterName = c.Name
	config.ConfigureCloudRoutes = false
	config.LeaderElection.ResourceNamespace = c.Name
	return ccm.New(ccm.Params{
		Config: config, RESTConfig: endpoint,
		Providers: []ccm.Provider{{Name: "fake", New: c.openCloud}},
	})
}

// restConfig leaves the rest to the Manager: encoding and throttling.
func (c cluster) restConfig() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
}

// idleTimeout is that of http.DefaultTransport, for connections to the cloud.
const idleTimeout = 90 * time.Second

// openCloud is called once a term.
func (c cluster) openCloud(
	ctx context.Context, env ccm.ProviderEnv,
) (cloudprovider.Interface, error) {
	transport := env.Transport(
		&http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: idleTimeout})
	client, err := fake.Dial(ctx, c.Cloud, fake.WithTransport(transport))
	if err != nil {
		return nil, err
	}
	return &termCloud{Interface: client.Provider(fake.WithCaller("fxccm")), client: client}, nil
}

// termCloud closes its client when the term has drained.
type termCloud struct {
	cloudprovider.Interface
	client *fake.Client
}

// Close is called by the Manager.
func (c *termCloud) Close() error {
	c.client.Close()
	return nil
}

// handler serves what a host of many Managers serves once for all of them.
func handler(managers []*ccm.Manager) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/statusz", func(w http.ResponseWriter, _ *http.Request) {
		all := make([]ccm.Status, 0, len(managers))
		for _, m := range managers {
			all = append(all, m.Status())
		}
		_ = json.NewEncoder(w).Encode(all)
	})
	return mux
}
