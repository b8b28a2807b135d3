package ccm_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// A host with its own cloud supplies a constructor of a Provider. New is called once a term.
func ExampleAsProvider() {
	newCloud := func() ccm.Provider {
		return ccm.Provider{
			Name: "acme",
			New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
				env.Logger.Info("Building the cloud", "configFile", env.ConfigFile)
				return fake.New().Provider(), nil // a host returns its own cloudprovider.Interface
			},
		}
	}
	var m *ccm.Manager
	app := fx.New(fx.NopLogger,
		ccm.Module,
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Provide(ccm.AsProvider(newCloud)),
		fx.Populate(&m),
	)
	if err := app.Err(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Status().Provider)
	// Output: acme
}

// A cloud that the host has built serves all terms.
func ExampleStaticProvider() {
	cloud := fake.New().Provider()
	m, err := ccm.New(ccm.Params{
		Config:     ccm.DefaultConfig(),
		Providers:  []ccm.Provider{ccm.StaticProvider(cloud)},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Status().Provider == cloud.ProviderName())
	// Output: true
}

// A server that answers readiness probes during the drain starts before the Manager and stops after
// it.
func ExampleAsSurroundingHook() {
	newProbes := func() (fx.Hook, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		server := &http.Server{ReadHeaderTimeout: time.Second}
		return fx.Hook{
			OnStart: func(context.Context) error {
				go func() { _ = server.Serve(listener) }()
				return nil
			},
			OnStop: server.Shutdown, // after the Manager has drained
		}, err
	}
	app := fx.Options(
		fx.NopLogger,
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Provide(ccm.AsSurroundingHook(newProbes)),
	)
	fmt.Println("complete:", fx.ValidateApp(app) == nil)
	// Output: complete: true
}

// A host with its own stop deadline passes it to the drain.
func ExampleStopBy() {
	ctx, cancel := context.WithCancelCause(context.Background())
	// The host runs manager.Run(ctx) until it has to stop.
	cancel(ccm.StopBy(time.Date(2030, 1, 1, 0, 0, 5, 0, time.UTC)))
	deadline, ok := ccm.StopDeadline(ctx)
	fmt.Println(deadline.Format(time.TimeOnly), ok)
	// Output: 00:00:05 true
}

// Probes call the checks; package ccm/serving/endpoints serves them over HTTP.
func ExampleManager_LivenessChecks() {
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"cloud-node-controller"}
	m, err := ccm.New(ccm.Params{
		Config:     cfg,
		Providers:  []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, check := range m.LivenessChecks() {
		fmt.Println(check.Name, check.Check(nil), check.Detail())
	}
	for _, check := range m.ReadinessChecks() {
		fmt.Println(check.Name, check.Check(nil))
	}
	// Output:
	// leaderElection <nil> ok
	// drain <nil> ok
	// cloud-node-controller <nil> not running: stopped
	// ccm stopped
}

// A host serves the checks of a Manager with its own handlers.
func ExampleCheck() {
	m, err := ccm.New(ccm.Params{
		Config:     ccm.DefaultConfig(),
		Providers:  []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	for _, check := range m.ReadinessChecks() {
		mux.HandleFunc("/readyz/"+check.Name, func(w http.ResponseWriter, r *http.Request) {
			if err := check.Check(r); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintln(w, check.Detail())
		})
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz/ccm", nil))
	fmt.Print(answer.Code, " ", answer.Body)
	// Output: 503 stopped
}
