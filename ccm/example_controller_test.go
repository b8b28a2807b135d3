package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// nodeCounter is a controller of a host: it counts the Nodes that are added while this process
// leads.
type nodeCounter struct{ added atomic.Int64 }

// newNodeCounter is called in each term. Clients and informers of the term end with the term.
func newNodeCounter(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
	if t.Config().CloudProvider.Name == "bare-metal" {
		return nil, fmt.Errorf("%w: there is nothing to count", ccm.ErrSkip)
	}
	c := &nodeCounter{}
	_, err := t.Informers().Core().V1().Nodes().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				c.added.Add(1)
				t.Recorder("node-counter").Event(obj.(*corev1.Node), corev1.EventTypeNormal,
					"Counted",
					"One more")
			},
		})
	return c, err
}

// Run is called when all informers have synced. It returns when all its goroutines have ended.
func (c *nodeCounter) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// HealthCheck is called by /healthz/node-counter and /livez.
func (c *nodeCounter) HealthCheck(*http.Request) error {
	if c.added.Load() > 10_000 {
		return errors.New("this cannot be true")
	}
	return nil
}

// DebuggingHandler answers below /debug/controllers/node-counter/.
func (c *nodeCounter) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "added:", c.added.Load())
	})
}

// A host's own controller runs beside the four cloud controllers. --controllers accepts its name
// and its aliases.
func ExampleController() {
	counter := func() ccm.Controller {
		return ccm.Controller{
			Name: "node-counter", Aliases: []string{"counter"},
			New: newNodeCounter,
		}
	}
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"*", "-service", "-route"}

	var m *ccm.Manager
	app := fx.New(fx.NopLogger,
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Provide(ccm.AsController(counter)), // without fx: Params.Controllers
		fx.Populate(&m),
	)
	if err := app.Err(); err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range m.Status().Controllers {
		fmt.Println(c.Name, "is", c.State)
	}
	// Output:
	// cloud-node-controller is waiting
	// cloud-node-lifecycle-controller is waiting
	// node-counter is waiting
	// node-route-controller is disabled
	// service-lb-controller is disabled
}

// A controller without leader election runs in every replica for as long as the Manager runs.
func ExampleController_withoutLease() {
	var stop context.CancelFunc
	probe := ccm.Controller{
		Name: "probe", NeedLeaderElection: new(false),
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				fmt.Println("runs in standby, without a cloud:", t.Cloud() == nil)
				stop() // ends the example
				<-ctx.Done()
				return nil
			}), nil
		},
	}
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"probe"}
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{probe},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:     election.NewHost(), // it never leads
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = cancel
	fmt.Println(m.Run(ctx), m.Status().Term)
	// Output:
	// runs in standby, without a cloud: true
	// <nil> 0
}

// A controller with RestartOnFailure restarts alone. Its event handlers are removed first.
func ExampleController_restartOnFailure() {
	var (
		stop  context.CancelFunc
		built int
	)
	flaky := ccm.Controller{
		Name: "flaky", RestartOnFailure: true,
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			built++
			if built == 1 {
				return nil, errors.New("its peer is not ready")
			}
			return ccm.RunnableFunc(func(ctx context.Context) error {
				fmt.Println("runs after New was called", built, "times, in term", t.Number())
				stop() // ends the example
				<-ctx.Done()
				return nil
			}), nil
		},
	}
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"flaky"}
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{flaky},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:     &election.Alone{},
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = cancel
	fmt.Println(m.Run(ctx))
	// Output:
	// runs after New was called 2 times, in term 1
	// <nil>
}

// A controller can have a page for debugging. Package ccm/serving/endpoints serves it at
// /debug/controllers/<name>/.
func ExampleManager_DebuggingHandler() {
	m, err := ccm.New(ccm.Params{
		Config:      ccm.DefaultConfig(),
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{{Name: "node-counter", New: newNodeCounter}},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/controllers/", http.StripPrefix("/debug/controllers", m.DebuggingHandler()))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/controllers/node-counter/", nil))
	fmt.Println(w.Code, "while there is no term")
	// Output: 404 while there is no term
}
