package hostintegration_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// newCloud makes a cloud with an instance for each name.
func newCloud(t *testing.T, instances ...string) *fake.Cloud {
	t.Helper()
	cloud := fake.New()
	for _, name := range instances {
		if err := cloud.AddInstances(fake.Instance{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	// A call that hangs at the end of a test would block the drain.
	t.Cleanup(cloud.ClearFaults)
	return cloud
}

// agent is the beginning of the user agent of all clients of a test: its name and the number of the
// run (go test -count).
func agent(t *testing.T) string {
	runs.Lock()
	defer runs.Unlock()
	number, known := runs.of[t]
	if !known {
		number = len(runs.of)
		if runs.of == nil {
			runs.of = map[*testing.T]int{}
		}
		runs.of[t] = number
	}
	return fmt.Sprintf("%s/run-%03d", t.Name(), number)
}

// identity is the CCM's identity, with the test's name in the user agent, which distinguishes its
// requests from those of other tests.
func identity(t *testing.T) *rest.Config {
	cfg := rest.CopyConfig(shared.Identity)
	cfg.UserAgent = agent(t)
	return cfg
}

// startApp starts an fx app with the CCM under the shipped rules.
func startApp(t *testing.T, cloud *fake.Cloud, opts ...ccmtest.Option) *ccmtest.CCM {
	t.Helper()
	return ccmtest.StartApp(t, shared.ControlPlane, cloud, append([]ccmtest.Option{
		ccmtest.WithIdentity(identity(t)), ccmtest.WithFx(fx.NopLogger),
	}, opts...)...)
}

// only enables the named controllers, and no others.
func only(controllers ...string) ccmtest.Option {
	return ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.Controllers = controllers })
}

// params are the Params of a Manager without fx, under the shipped rules.
func params(t *testing.T, cloud *fake.Cloud, elector election.Elector) ccm.Params {
	log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2)))
	cfg := ccmtest.Config()
	cfg.LeaderElection.Identity = t.Name()
	return ccm.Params{
		Config: cfg, Providers: []ccm.Provider{cloud.CCMProvider()}, RESTConfig: identity(t),
		Elector: elector, Logger: &log,
	}
}

// run runs a Manager until the test ends, or until the returned function is called, which returns
// the result of Run.
func run(t *testing.T, p ccm.Params) (m *ccm.Manager, stop func() error) {
	t.Helper()
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-result:
			return err
		case <-time.After(ccmtest.WaitLimit):
			return fmt.Errorf("Run has not returned; status: %+v", m.Status())
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the Manager did not stop cleanly: %v", err)
		}
	})
	return m, stop
}

// leading is a manual elector that lets the Manager lead at once.
func leading() *ccmtest.ManualElector {
	e := ccmtest.NewManualElector()
	e.Lead()
	return e
}

// controller is a controller of a host: build may use the term, and returns the function to run.
func controller(name string, build func(t *ccm.Term) (ccm.RunnableFunc, error)) ccm.Controller {
	return ccm.Controller{
		Name: name,
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			run, err := build(t)
			if err != nil {
				return nil, err
			}
			return run, nil
		},
	}
}

// untilEnd waits for the end of ctx.
func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// idle is a controller that does nothing.
func idle(name string) ccm.Controller {
	return controller(name, func(*ccm.Term) (ccm.RunnableFunc, error) { return untilEnd, nil })
}

// statusOf is the status of one controller.
func statusOf(t *testing.T, m *ccm.Manager, name string) status.Controller {
	t.Helper()
	for _, c := range m.Status().Controllers {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("Status has no controller %s", name)
	return status.Controller{}
}

// waitController waits until the condition holds for the status of one controller.
func waitController(
	t *testing.T, m *ccm.Manager, name string, cond func(status.Controller) bool,
) status.Controller {
	t.Helper()
	return ccmtest.Eventually(t, "controller "+name+" is as wanted",
		func(context.Context) (status.Controller, error) {
			current := statusOf(t, m, name)
			if !cond(current) {
				return current, fmt.Errorf("%+v", current)
			}
			return current, nil
		})
}

// objectName is the test's name in the form of an object's name.
func objectName(t *testing.T) string {
	return strings.NewReplacer("_", "-", "/", "-").Replace(strings.ToLower(t.Name()))
}

// requests returns the requests of the test's clients, which have its name in the user agent.
func requests(t *testing.T, filters ...controlplane.Filter) []controlplane.AuditRecord {
	t.Helper()
	records, err := shared.Audit().All(append(filters, controlplane.ByUserAgent(agent(t)))...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// waitRequests waits for at least n matching requests.
func waitRequests(t *testing.T, n int, filters ...controlplane.Filter) []controlplane.AuditRecord {
	t.Helper()
	records, err := shared.Audit().Wait(waittest.Context(t), controlplane.Mark{}, n,
		append(filters, controlplane.ByUserAgent(agent(t)))...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// createConfigMap creates a ConfigMap in the namespace default, and deletes it at the end of the
// test.
func createConfigMap(t *testing.T, name string) {
	t.Helper()
	maps := shared.Admin.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if _, err := maps.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := maps.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// witness is an event handler that counts its events.
type witness struct {
	mu sync.Mutex
	// told counts the events by "add name", "update name", "resync name" and "delete name".
	told  map[string]int
	total int
}

var _ cache.ResourceEventHandler = (*witness)(nil)

func (w *witness) OnAdd(obj any, _ bool) { w.note("add", obj) }
func (w *witness) OnDelete(obj any)      { w.note("delete", obj) }

func (w *witness) OnUpdate(before, after any) {
	b, err := meta.Accessor(before)
	if err != nil {
		return
	}
	a, err := meta.Accessor(after)
	if err != nil {
		return
	}
	if b.GetResourceVersion() == a.GetResourceVersion() {
		w.note("resync", after)
		return
	}
	w.note("update", after)
}

func (w *witness) note(what string, obj any) {
	name, _ := cache.DeletionHandlingObjectToName(obj)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = map[string]int{}
	}
	w.told[what+" "+name.Name]++
	w.total++
}

// count is the number of all events.
func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// wait waits until it has received this event n times.
func (w *witness) wait(t *testing.T, what string, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("a handler gets %d times: %s", n, what), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.told[what] < n {
			return fmt.Errorf("it got: %v", w.told)
		}
		return nil
	})
}
