// Command fxccm is a standalone cloud controller manager, and the shortest complete use of the
// library.
//
// Read newApp first: it is an fx app of three modules. The rest of this folder has parts that a
// host already has: a command line, logs, signals, exit codes.
//
//	fxccm --kubeconfig=admin.conf --cloud-provider=openstack --cloud-config=cloud.conf \
//	  --cluster-cidr=10.200.0.0/16
package main

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/controllers/persistentvolumelabel"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/openstack"
)

// stopReserve is the time that a stop takes beside the drain, mostly for the secure port.
const stopReserve = 5 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// newApp is the whole cloud controller manager.
func newApp(config options.Configuration, tracer ccm.Tracer) *fx.App {
	return fx.New(
		// The configuration: from flags and a file (commandLine), or a literal in Go.
		fx.Supply(config.Config, config.Serving),

		// The cloud controller manager: leader election, informers, the four controllers. It takes
		// its configuration and its provider from the app.
		ccm.Module,

		// The secure port: /healthz, /livez, /readyz, /metrics. A program with its own server omits
		// this.
		serving.Module,

		// The supported clouds, one per line; --cloud-provider selects one.
		openstack.Module,
		openstack.Configure(openstack.WithEnvironment(os.Getenv)),
		fakeCloud,

		// Controllers beside the four. They are off unless --controllers names them.
		fx.Provide(ccm.AsController(persistentvolumelabel.Controller)),
		fx.Provide(ccm.AsController(nodeipam.Controller)),

		// The metrics of fxccm and of the cloud are in component-base's registry, which the
		// secure port serves.
		fx.Provide(func() prometheus.Registerer { return legacyregistry.Registerer() }),

		// Spans, if OpenTelemetry's environment variables ask for them.
		fx.Provide(func() ccm.Tracer { return tracer }),

		// Settings of this program.
		fx.StopTimeout(config.Config.DrainTimeout.Duration+stopReserve),
		fx.WithLogger(logEvents),
	)
}
