package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
	"github.com/fxccm/fxccm/provider/fake"
)

// docs: begin run

// runBoth runs reconcilers and a cloud controller manager under one election, until ctx ends.
func runBoth(
	ctx context.Context, restConfig *rest.Config, params ccm.Params, mux *http.ServeMux,
) error {
	host, err := controllerruntime.New(restConfig, controllerruntime.Config{
		Options: ctrl.Options{
			LeaderElection: true, LeaderElectionID: "my-control-plane",
			LeaderElectionNamespace: "kube-system",
		},
		Setup: addNodeReconciler, // func(ctrl.Manager) error, called in each campaign
	})
	if err != nil {
		return err
	}
	manager, err := ccm.New(host.Params(params)) // params has a Config and a Provider
	if err != nil {
		return err
	}
	mux.Handle("/", host.Handler()) // /healthz, /readyz, /metrics
	mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(manager)))
	return host.Run(ctx, manager)
}

// docs: end

var _ = runBoth

// A manager that another team has made gets a cloud controller manager with a lease of its own.
func ExampleAdd() {
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:6443"}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	// docs: begin add
	manager, err := controllerruntime.Add(mgr, ccm.Params{
		Config:    ccm.DefaultConfig(),
		Providers: []ccm.Provider{fake.New().CCMProvider()},
	})
	if err != nil {
		fmt.Println(err) // names the invalid field
		return
	}
	mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(manager)))
	// docs: end
	fmt.Println(manager.Status().State) // until mgr.Start
	// Output: stopped
}

// Reconcilers and a cloud controller manager run under one election.
func ExampleNew() {
	host, err := controllerruntime.New(&rest.Config{Host: "https://127.0.0.1:6443"},
		controllerruntime.Config{
			Options: ctrl.Options{
				LeaderElection: true, LeaderElectionID: "my-control-plane",
				LeaderElectionNamespace: "kube-system",
			},
			Setup: addNodeReconciler, // called in each campaign
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := ccm.New(host.Params(ccm.Params{
		Config:    ccm.DefaultConfig(),
		Providers: []ccm.Provider{fake.New().CCMProvider()},
	}))
	if err != nil {
		fmt.Println(err) // names the invalid field
		return
	}
	fmt.Println(manager.Status().State) // until host.Run(ctx, manager)
	// Output: stopped
}

// The fence also protects the cloud from a reconciler of a process that no longer leads.
func ExampleTransport() {
	tag := func(ctx context.Context, cloud *http.Client, server string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut,
			"https://cloud.example.com/servers/"+server+"/tags/served", nil)
		if err != nil {
			return err
		}
		answer, err := cloud.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	_ = controllerruntime.Config{
		Setup: func(m ctrl.Manager) error {
			transport, err := controllerruntime.Transport(m, http.DefaultTransport)
			if err != nil {
				return err
			}
			cloud := &http.Client{Transport: transport, Timeout: time.Minute}
			return ctrl.NewControllerManagedBy(m).For(&corev1.Node{}).Complete(reconcile.Func(
				func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					// After the campaign the error wraps ccm.ErrTermOver.
					return ctrl.Result{}, tag(ctx, cloud, request.Name)
				}))
		},
	}
}

func ExampleModule() {
	newHostConfig := func() controllerruntime.Config {
		return controllerruntime.Config{Setup: addNodeReconciler}
	}
	app := fx.New(fx.NopLogger,
		ccm.Module, controllerruntime.Module,
		fx.Provide(newHostConfig),
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fake.Module(fake.New()), // or fx.Provide(ccm.AsProvider(newCloud))
	)
	fmt.Println(app.Err()) // a program calls app.Run()
	// Output: <nil>
}
