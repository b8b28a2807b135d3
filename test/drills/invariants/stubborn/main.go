// Command stubborn is a host of the library whose cloud provider breaks the rules: the calls that
// make load balancers do not end with their context, and do not go through the transport that the
// library offers. Nothing but the end of the process ends them.
//
// It takes the same flags as the example, and a --cloud-config with the endpoint of a fake cloud.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/fake"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stubborn:", err)
	}
	os.Exit(code)
}

// run is what a small host does: it starts the app, waits until it is asked to stop, and says by
// its exit code if something could not be ended.
func run(args []string) (code int, _ error) {
	config, err := parse(args)
	if err != nil {
		return 1, err
	}
	app := fx.New(
		fx.Supply(config),
		fx.Supply(fx.Annotate(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))),
		ccm.Module,
		fx.Provide(ccm.AsProvider(newProvider)),
		fx.StopTimeout(config.DrainTimeout.Duration+5*time.Second),
		fx.WithLogger(func() fxevent.Logger { return fxevent.NopLogger }),
	)
	start, cancelStart := context.WithTimeout(context.Background(), app.StartTimeout())
	defer cancelStart()
	if err := app.Start(start); err != nil {
		return 1, err
	}
	asked := <-app.Wait()
	stop, cancelStop := context.WithTimeout(context.Background(), app.StopTimeout())
	defer cancelStop()
	err = app.Stop(stop)
	if timedOut := (*ccm.DrainTimeoutError)(nil); errors.As(err, &timedOut) {
		return ccm.ExitDrainTimeout, err
	}
	if err != nil {
		return max(asked.ExitCode, 1), err
	}
	return asked.ExitCode, nil
}

func parse(args []string) (ccm.Config, error) {
	opts := options.New()
	flags := pflag.NewFlagSet("stubborn", pflag.ContinueOnError)
	for _, group := range opts.Flags().FlagSets {
		flags.AddFlagSet(group)
	}
	if err := flags.Parse(args); err != nil {
		return ccm.Config{}, err
	}
	completed, err := opts.Complete()
	return completed.Config, err
}

func newProvider() ccm.Provider {
	return ccm.Provider{
		Name: "fake",
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			data, err := os.ReadFile(env.ConfigFile)
			if err != nil {
				return nil, err
			}
			var config struct {
				Endpoint string `json:"endpoint"`
			}
			if err := yaml.UnmarshalStrict(data, &config); err != nil {
				return nil, fmt.Errorf("%s: %w", env.ConfigFile, err)
			}
			client, err := fake.Dial(ctx, config.Endpoint)
			if err != nil {
				return nil, err
			}
			return &provider{Interface: client.Provider(
				fake.WithCaller(fake.TermCaller(env.Identity, env.Term))), client: client}, nil
		},
	}
}

// provider is the fake cloud's, but for its load balancers.
type provider struct {
	cloudprovider.Interface
	client *fake.Client
}

// Close ends the connections when the term has drained.
func (p *provider) Close() error {
	p.client.Close()
	return nil
}

// LoadBalancer implements cloudprovider.Interface.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancers, served := p.Interface.LoadBalancer()
	return deaf{balancers}, served
}

// deaf does not hear the end of a context.
type deaf struct{ cloudprovider.LoadBalancer }

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (d deaf) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return d.LoadBalancer.EnsureLoadBalancer(context.WithoutCancel(ctx), cluster, service, nodes)
}
