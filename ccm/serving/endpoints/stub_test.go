package endpoints_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// limit is generous: only code that hangs reaches it.
const limit = waittest.Limit

// emptyCloud is a cloud without interfaces.
func emptyCloud() cloudprovider.Interface {
	return fake.New(fake.WithProviderName("empty")).Provider()
}

// worker is a controller of the host. The test decides its health.
type worker struct {
	sick atomic.Bool
	// hold delays the return of Run, and so the end of the drain.
	hold chan struct{}
}

var errSick = errors.New("the queue has not moved for an hour")

func (w *worker) HealthCheck(*http.Request) error {
	if w.sick.Load() {
		return errSick
	}
	return nil
}

func (w *worker) Run(ctx context.Context) error {
	<-ctx.Done()
	if w.hold != nil {
		<-w.hold
	}
	return nil
}

func (w *worker) controller(name string) ccm.Controller {
	return ccm.Controller{Name: name, New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
		return w, nil
	}}
}

// newManager returns a Manager that leads as soon as it runs. No API server listens at its address.
func newManager(
	t *testing.T, change func(*ccm.Params), controllers ...ccm.Controller,
) *ccm.Manager {
	t.Helper()
	cfg := ccm.DefaultConfig()
	cfg.LeaderElection.LeaderElect = false
	cfg.Controllers = nil
	for _, c := range controllers {
		cfg.Controllers = append(cfg.Controllers, c.Name)
	}
	log := logr.Discard()
	params := ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{ccm.StaticProvider(emptyCloud())},
		Controllers: controllers,
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "a-secret-token"},
		Logger:      &log,
	}
	if change != nil {
		change(&params)
	}
	m, err := ccm.New(params)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// runReady runs the Manager until the test ends, and returns when it is ready.
func runReady(t *testing.T, m *ccm.Manager) (stop context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-m.Done():
		case <-time.After(limit):
			t.Errorf("the Manager has not stopped: %+v", m.Status())
		}
	})
	waittest.Until(t, "the Manager is ready", func() bool { return m.Status().Ready })
	return cancel
}

func newHandler(m *ccm.Manager, opts ...endpoints.Option) http.Handler {
	return endpoints.NewHandler(m,
		append([]endpoints.Option{endpoints.WithLogger(logr.Discard())}, opts...)...)
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}
