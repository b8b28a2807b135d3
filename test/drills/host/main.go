// Command host is a host of the library: an fx app with other parts beside the cloud controller
// manager. It uses the defaults wherever possible, in particular the DrainTimeoutPolicy. It has the
// flags of the example, and
//
//	--shared-informers  give the Manager the host's informers
//	--resolver          resolve names through the DNS server at this address
//	--provider          the fault of the provider: hanging-new, hanging-initialize, deaf
//	--fault-file        the provider has its fault while this file exists
//
// The file of --cloud-config has the endpoint of a fake cloud. The log is JSON, with a line for
// each entry.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/options"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
	}
	os.Exit(code)
}

type settings struct {
	sharedInformers bool
	resolver        string
	fault           fault
}

func parse(args []string) (config options.Configuration, s settings, err error) {
	opts := options.New()
	flags := pflag.NewFlagSet("host", pflag.ContinueOnError)
	for _, group := range opts.Flags().FlagSets {
		flags.AddFlagSet(group)
	}
	flags.BoolVar(&s.sharedInformers, "shared-informers", false, "")
	flags.StringVar(&s.resolver, "resolver", "", "")
	flags.StringVar(&s.fault.kind, "provider", "", "")
	flags.StringVar(&s.fault.file, "fault-file", "", "")
	if err := flags.Parse(args); err != nil {
		return config, s, err
	}
	completed, err := opts.Complete()
	return completed.Configuration, s, err
}

// run starts the app, waits for a signal, and stops the app.
func run(args []string) (code int, _ error) {
	config, s, err := parse(args)
	if err != nil {
		return 1, err
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))
	klog.SetLogger(log)
	app := fx.New(
		fx.Supply(config.Config, config.Serving, s),
		fx.Supply(fx.Annotate(log)),
		fx.Provide(newRESTConfig),
		ccm.Module,
		serving.Module,
		fx.Provide(ccm.AsProvider(newProvider)),
		sharedInformers(s),
		fx.StopTimeout(config.Config.DrainTimeout.Duration+5*time.Second),
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
	if err := app.Stop(stop); err != nil {
		return max(asked.ExitCode, 1), err
	}
	return asked.ExitCode, nil
}

func newRESTConfig(config ccm.Config, s settings) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", config.ClientConnection.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if s.resolver != "" {
		cfg.Dial = netfault.DialThrough(s.resolver)
	}
	return cfg, nil
}

// sharedInformers are the host's own informers, which live as long as the process.
func sharedInformers(s settings) fx.Option {
	if !s.sharedInformers {
		return fx.Options()
	}
	return fx.Provide(
		func(lifecycle fx.Lifecycle, config *rest.Config) (informers.SharedInformerFactory, error) {
			config = rest.CopyConfig(config)
			config.QPS = -1
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			factory := informers.NewSharedInformerFactory(client, 0)
			nodes, services := factory.Core().V1().Nodes().Informer(),
				factory.Core().V1().Services().Informer()
			_, _ = nodes, services // the host watches both, with or without leadership
			ctx, cancel := context.WithCancel(context.Background())
			lifecycle.Append(fx.Hook{
				OnStart: func(context.Context) error {
					factory.StartWithContext(ctx)
					return nil
				},
				OnStop: func(context.Context) error {
					cancel()
					factory.Shutdown()
					return nil
				},
			})
			return factory, nil
		})
}
