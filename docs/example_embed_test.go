package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/fake"
)

func Example_embed() {
	cloud := fake.New()
	// docs: begin embed
	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"

	fx.New(
		ccm.Module,
		fake.Module(cloud), // a cloud provider
		fx.Supply(cfg),     // the user's configuration
		// your *rest.Config; without it: kubeconfig, or the pod's service account
		fx.Provide(hostRESTConfig),
		fx.Provide(ccm.AsController(newMine)), // your own controllers, if any
	).Run()
	// docs: end
	// Output: mine runs
}

// hostFlags reads a command line of a host that has its own --leader-elect.
func hostFlags(args []string) (options.Completed, error) {
	// docs: begin flags
	flags := pflag.NewFlagSet("my-control-plane", pflag.ContinueOnError)
	flags.Bool("leader-elect", true, "Elect a leader of the control plane.") // the host's own

	opts := options.New()
	if err := opts.AddFlags(flags, options.WithPrefix("ccm-")); err != nil {
		return options.Completed{}, err
	}
	if err := flags.Parse(args); err != nil {
		return options.Completed{}, err
	}
	return opts.Complete() // the error has a sentence for each invalid flag
	// docs: end
}

func Example_flags() {
	completed, err := hostFlags([]string{
		"--leader-elect=false", "--ccm-cluster-cidr=10.244.0.0/16",
		"--ccm-concurrent-service-syncs=4",
	})
	fmt.Println(completed.Config.ClusterCIDR, completed.Config.Service.ConcurrentSyncs,
		completed.Config.LeaderElection.LeaderElect, err)

	_, err = hostFlags([]string{"--ccm-concurrent-service-syncs=0"})
	fmt.Println(err)
	// Output:
	// 10.244.0.0/16 4 true <nil>
	// --ccm-concurrent-service-syncs (service.concurrentSyncs): Invalid value: 0: must be at least 1
}

func Example_handIn() {
	var (
		cfg      = ccm.DefaultConfig()
		cloud    = fake.New()
		log      = logr.Discard()
		mux      = http.NewServeMux()
		registry = prometheus.NewRegistry()
	)
	cfg.ClusterCIDR = "10.244.0.0/16"
	// docs: begin hand-in
	app := fx.New(
		ccm.Module,
		fake.Module(cloud),
		fx.Supply(cfg),
		fx.Provide(hostRESTConfig),

		fx.Supply(log),      // a logr.Logger
		fx.Supply(registry), // a *prometheus.Registry
		// an *http.ServeMux: /ccm/healthz, /ccm/readyz, /ccm/metrics, /ccm/statusz, …
		fx.Supply(mux),
		endpoints.Mount("/ccm"),

		fx.StopTimeout(cfg.DrainTimeout.Duration+5*time.Second),
		fx.NopLogger,
	)
	// docs: end
	fmt.Println(app.Err())
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ccm/healthz", nil))
	fmt.Println(w.Code)
	// Output:
	// <nil>
	// 200
}

// hostElection is a host's own implementation of election.Elector.
type hostElection struct{ election.Elector }

func Example_decorate() {
	app := fx.New(fx.NopLogger, ccm.Module, fake.Module(fake.New()),
		fx.Supply(ccm.DefaultConfig(), logr.Discard(), &hostElection{&election.Alone{}}),
		fx.Provide(hostRESTConfig),
		// docs: begin decorate
		fx.Decorate(func(p ccm.Params, election *hostElection) ccm.Params {
			p.Elector = election
			p.Owner = "tenant-7"
			return p
		}),
		// docs: end
		fx.Invoke(func(p ccm.Params) { fmt.Println(p.Owner) }),
	)
	fmt.Println(app.Err())
	// Output:
	// tenant-7
	// <nil>
}

// docs: begin status

// reportsState is a part of the host that needs the Manager.
func reportsState(lifecycle fx.Lifecycle, manager *ccm.Manager, log logr.Logger) {
	lifecycle.Append(fx.StopHook(func() {
		status := manager.Status()
		log.Info("Cloud controller manager", "state", status.State, "reason", status.Reason, "term",
			status.Term)
	}))
}

// docs: end

func Example_status() {
	cfg := ccm.DefaultConfig()
	cfg.Controllers = nil
	app := fx.New(fx.NopLogger, ccm.Module, fake.Module(fake.New()),
		fx.Supply(cfg, logr.Discard(), silence()),
		fx.Provide(hostRESTConfig), fx.Invoke(reportsState))
	fmt.Println(app.Start(context.Background()), app.Stop(context.Background()))
	// Output: <nil> <nil>
}

func runCCM(
	ctx context.Context, cfg ccm.Config, provider ccm.Provider, restConfig *rest.Config,
) error {
	// docs: begin run
	m, err := ccm.New(
		ccm.Params{Config: cfg, Providers: []ccm.Provider{provider}, RESTConfig: restConfig})
	if err != nil {
		return err // names the invalid field; nothing is started
	}
	return m.Run(ctx) // until ctx ends; m.Status() returns its state
	// docs: end
}

func Example_run() {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	cfg := ccm.DefaultConfig()
	fmt.Println(runCCM(ctx, cfg, fake.New().CCMProvider(), hostRESTConfig()))
	cfg.Service.ConcurrentSyncs = 0
	fmt.Println(runCCM(ctx, cfg, fake.New().CCMProvider(), hostRESTConfig()))
	// Output:
	// <nil>
	// ccm: configuration: service.concurrentSyncs: Invalid value: 0: must be at least 1
}

// docs: begin control-plane

// controlPlane is a host with a cloud controller manager among its parts.
type controlPlane struct {
	ccm *ccm.Manager
	mux *http.ServeMux // of the host's own server
}

func newControlPlane(params ccm.Params) (*controlPlane, error) {
	manager, err := ccm.New(params)
	if err != nil {
		return nil, err
	}
	p := &controlPlane{ccm: manager, mux: http.NewServeMux()}
	p.mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(manager)))
	return p, nil
}

// run runs until ctx ends, and stops within stopTimeout.
func (p *controlPlane) run(ctx context.Context, stopTimeout time.Duration) error {
	managing, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- p.ccm.Run(managing) }()

	select {
	case <-ctx.Done():
	case err := <-ended:
		return err // an *DrainTimeoutError: Run returns no other error
	}
	// Here the host stops the parts that depend on the cloud controller manager.
	stop(ccm.StopBy(time.Now().Add(stopTimeout)))
	return <-ended
}

// docs: end

func Example_controlPlane() {
	ctx, stop := context.WithCancel(context.Background())
	log := logr.Discard()
	p, err := newControlPlane(ccm.Params{
		Config:      onlyAnnounces(),
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{announces(func(*ccm.Term, error) { stop() }, nothing)},
		RESTConfig:  hostRESTConfig(),
		Elector:     &election.Alone{},
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.run(ctx, 10*time.Second), p.ccm.Status().Term)
	// Output: <nil> 1
}

// exitCode converts the error to an exit code, for a program without fx.
func exitCode(err error) int {
	// docs: begin exit-code
	var timedOut *ccm.DrainTimeoutError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &timedOut):
		return ccm.ExitDrainTimeout // timedOut.Running names the calls that may still act
	default:
		return 1
	}
	// docs: end
}

func Example_exitCode() {
	fmt.Println(exitCode(nil), exitCode(&ccm.DrainTimeoutError{}),
		exitCode(errors.New("the port is taken")))
	// Output: 0 3 1
}
