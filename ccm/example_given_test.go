package ccm_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// A host can serve health, metrics and status on its own mux. Without fx: endpoints.NewHandler.
func ExampleModule_mux() {
	mux := http.NewServeMux()
	app := fx.New(fx.NopLogger,
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Supply(mux),
		endpoints.Mount("/ccm"),
	)
	if err := app.Err(); err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/ccm/healthz", "/ccm/readyz"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /ccm/healthz 200
	// /ccm/readyz 500
}

// The host's logger gets the Manager's name and the number of the term. The flag --v and klog's
// other flags do not affect it.
func ExampleParams_logger() {
	log := funcr.New(func(_, args string) { fmt.Println(args) },
		funcr.Options{LogInfoLevel: new(string)})
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"greets"}
	cfg.LeaderElection.Identity = "replica-1"
	var stop context.CancelFunc
	m, err := ccm.New(ccm.Params{
		Name:      "east",
		Config:    cfg,
		Providers: []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{{
			Name: "greets",
			New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(ctx context.Context) error {
					t.Logger().Info("Hello")
					stop() // ends the example
					<-ctx.Done()
					return nil
				}), nil
			},
		}},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:    &election.Alone{},
		Registerer: prometheus.NewRegistry(),
		Logger:     &log, // with fx: fx.Supply(log)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = cancel
	_ = m.Run(ctx)
	// Unordered output:
	// "msg"="Term begins" "manager"="east" "term"=1 "identity"="replica-1"
	// "msg"="Term is ready" "manager"="east" "term"=1
	// "msg"="Hello" "manager"="east" "term"=1
	// "msg"="Term ends" "manager"="east" "term"=1 "reason"="asked to stop: context canceled"
	// "msg"="Term has drained" "manager"="east" "term"=1
}

// The host receives the events of the Manager and of its own controllers.
func ExampleEventRecorderSource() {
	// a real host has a record.EventBroadcaster, or controller-runtime's manager
	recorder := record.NewFakeRecorder(1)
	recorders := ccm.EventRecorderSource(func(component string) record.EventRecorder {
		fmt.Println("recorder of", component)
		return recorder
	})
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"greets"}
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config:    cfg,
		Providers: []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{{
			Name: "greets",
			New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
				t.Recorder("greeter").Event(nil, "Normal", "Greeting", "Hello")
				return nil, ccm.ErrSkip
			},
		}},
		RESTConfig:     &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:        &election.Alone{},
		Logger:         &log,
		EventRecorders: recorders, // with fx: fx.Supply(recorders)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = m.Run(ctx) }()
	fmt.Println(<-recorder.Events)
	stop()
	<-m.Done()
	// Output:
	// recorder of greeter
	// Normal Greeting Hello
}

// Metrics are registered with the host's registry. The label "manager" distinguishes Managers that
// share a registry.
func ExampleParams_registerer() {
	registry := prometheus.NewRegistry()
	elector := election.NewHost()
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Name:       "east",
		Config:     ccm.DefaultConfig(),
		Providers:  []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:    elector,
		Logger:     &log,
		Registerer: registry, // with fx: fx.Supply(registry)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	for m.Status().State != status.Standby {
		time.Sleep(time.Millisecond)
	}
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "fxccm_leading" {
			m := f.GetMetric()[0]
			fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
		}
	}
	stop()
	fmt.Println(<-result)
	// Output:
	// fxccm_leading east 0
	// <nil>
}

// A host's test can control the time: this clock decides when leadership expires and when retries
// follow.
func ExampleParams_clock() {
	now := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	app := fx.Options(
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Decorate(func(p ccm.Params) ccm.Params { // without fx: Params.Clock
			p.Clock = now
			return p
		}),
	)
	fmt.Println("complete:", fx.ValidateApp(app) == nil)
	// Output: complete: true
}
