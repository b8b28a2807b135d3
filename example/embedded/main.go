// Command fxccm-embedded is a small control plane of its own, with the cloud controller
// manager inside.
//
// Read newApp first: it shows the host's own parts, and the few lines that add the cloud controller
// manager. Then read leadership.go: it configures package hosting/controllerruntime, with which the
// process continues after it has lost its lease.
//
//	fxccm-embedded --kubeconfig=admin.conf --ccm-cloud-config=cloud.yaml \
//	  --ccm-cluster-cidr=10.200.0.0/16
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
)

// newApp is the whole program. Fx starts these parts from top to bottom and stops them from bottom
// to top: first the cloud controller manager, while the lease is still renewed, so that its calls
// in flight can finish; then controller-runtime's manager, which releases the lease; and at last
// the server, so that it answers probes until the end.
func newApp(flags hostFlags, config ccm.Config, log logr.Logger) *fx.App {
	return fx.New(
		fx.Supply(flags, log),
		fx.Provide(newRESTConfig),

		// The host: its HTTP server with its pages, controller-runtime's manager with its election
		// and its reconcilers.
		server,
		fx.Invoke(serveNodes),
		fx.Provide(newHostConfig),
		controllerruntime.Module,

		// The cloud controller manager. It takes from the app what the host has anyway:
		// *rest.Config, logr.Logger, and the Elector, the informers and the metrics registry of the
		// module above. Metrics of the route controller are in another registry, which
		// /ccm/metrics serves: both registries have go_* and process_*, and one page of both would
		// have series twice.
		ccm.Module,
		fx.Supply(config),
		fx.Decorate(electorOf),
		fx.Provide(ccm.AsProvider(newCloud)),

		// The host's own controller. It acts only while the lease is held, behind the same fence as
		// the four.
		fx.Provide(ccm.AsController(nodeCensus)),

		// The endpoints on the host's mux: /ccm/healthz, /ccm/statusz, /ccm/metrics and others.
		endpoints.Mount("/ccm"),

		// A stop drains the Manager first, and then controller-runtime.
		fx.StopTimeout(config.DrainTimeout.Duration+2*managerGrace),
		fx.WithLogger(logEvents),
	)
}

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code: 0 after a graceful stop, 1 for an error at the start, 3
// (ccm.ExitDrainTimeout) if a part that needs leadership did not end. The code 3 comes from
// fx.Shutdowner, and app.Run exits with it itself.
func run(args []string) int {
	cmd, err := parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		return fail(err)
	case cmd.printRBAC:
		fmt.Print(rbac)
		return 0
	}
	log := startLogging()
	registerMetrics()
	if err := setFeatureGates(cmd.gates); err != nil {
		return fail(err)
	}
	app := newApp(cmd.host, cmd.ccm, log)
	if err := app.Err(); err != nil {
		return fail(dig.RootCause(err))
	}
	for _, warning := range cmd.warnings {
		log.Info("Warning: " + warning)
	}
	app.Run() // until SIGTERM or SIGINT
	return 0
}

func fail(err error) int {
	for _, sentence := range strings.Split(err.Error(), "\n") {
		fmt.Fprintln(os.Stderr, "fxccm-embedded: "+sentence)
	}
	return 1
}
