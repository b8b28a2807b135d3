package ccm_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// host is the part of an app that a host writes; it always leads and runs controller "mine".
func host(p ccm.Params, options ...fx.Option) fx.Option {
	return fx.Options(
		ccm.Module,
		fx.NopLogger,
		fx.Supply(p.Config, p.RESTConfig, p.Logger),
		fx.Options(options...),
	)
}

func supplyProvider(p ccm.Provider) fx.Option {
	return fx.Provide(ccm.AsProvider(func() ccm.Provider { return p }))
}

func supplyController(c ccm.Controller) fx.Option {
	return fx.Provide(ccm.AsController(func() ccm.Controller { return c }))
}

func TestModule_GraphIsComplete(t *testing.T) {
	p := standaloneParams("*")
	if err := fx.ValidateApp(host(p, supplyProvider(p.Providers[0]))); err != nil {
		t.Error(err)
	}
}

func TestModule_BadInputIsAnErrorOfNew(t *testing.T) {
	p := standaloneParams("*")
	cases := map[string]struct {
		app  fx.Option
		want string
	}{
		"no provider": {host(p), "no cloud provider was given"},
		"several providers": {
			host(p, supplyProvider(p.Providers[0]), supplyProvider(provider(func() (cloudprovider.Interface, error) { return emptyCloud(), nil }))),
			"several cloud providers",
		},
		"duplicate controller": {host(p, supplyProvider(p.Providers[0]), supplyController(idle("mine")), supplyController(idle("mine"))), "controllers[mine]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			err := fx.New(c.app).Err()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want an error that says %q, got: %v", c.want, err)
			}
		})
	}
}

func TestModule_CanBeStartedAgain(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := standaloneParams("mine")
	var m *ccm.Manager
	app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(idle("mine")), fx.Populate(&m)))
	for round := uint64(1); round <= 3; round++ {
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready && s.Term == round }, "ready")
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := m.Status(); s.State != ccm.StateStopped || len(s.Running) > 0 {
			t.Fatalf("after Stop: %+v", s)
		}
	}
}

// OnStart must not wait for what may be down: here the API server and the provider.
func TestModule_StartDoesNotWait(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := standaloneParams("*")
	p.Config.LeaderElection.LeaderElect = true
	var m *ccm.Manager
	app := fx.New(host(p, supplyProvider(p.Providers[0]), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s ccm.Status) bool {
		return s.State == ccm.StateDegraded && strings.Contains(s.Reason, "the API server is down or its address is wrong")
	}, "degraded because of the API server")
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stubborn is a controller that ends only when the term and the test end it.
func stubborn(name string, release <-chan struct{}) ccm.Controller {
	return ccm.Controller{Name: name, New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
		return ccm.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			<-release
			return nil
		}), nil
	}}
}

func TestModule_StopEndsWithinItsDeadlineAndNamesWhatRuns(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	release := make(chan struct{})
	p := standaloneParams("mine")
	p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
	var m *ccm.Manager
	app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(stubborn("mine", release)), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready }, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := app.Stop(ctx)
	var timedOut *ccm.DrainTimeoutError
	if !errors.As(err, &timedOut) || !strings.Contains(err.Error(), "controller mine") {
		t.Errorf("Stop returned %v, want a DrainTimeoutError that names controller mine", err)
	}
	if ctx.Err() != nil {
		t.Error("Stop used up the whole deadline; hooks of the host would be skipped")
	}
	close(release)
	eventually(t, m.Status, func(s ccm.Status) bool { return len(s.Running) == 0 }, "the controller's end")
}

// slow is a controller that ends only when it was asked to and the test has released it.
func slow(name string, release <-chan struct{}) ccm.Controller {
	return ccm.Controller{Name: name, New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
		return ccm.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			<-release
			return nil
		}), nil
	}}
}

// startAgain starts an app whose stop has timed out. Fx refuses as long as it is about to return
// from the stop hooks.
func startAgain(ctx context.Context, app *fx.App) error {
	for {
		err := app.Start(ctx)
		if err == nil || !strings.Contains(err.Error(), "in state: stopping") {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// drainingApp is an app whose stop has timed out: the Manager waits for controller "mine", which
// ends when released.
func drainingApp(t *testing.T) (app *fx.App, m *ccm.Manager, release func()) {
	t.Helper()
	hold := make(chan struct{})
	p := standaloneParams("mine")
	p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
	app = fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(slow("mine", hold)), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready }, "ready")
	// Without a deadline the drain has its hour.
	ctx, giveUp := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- app.Stop(ctx) }()
	eventually(t, m.Status, func(s ccm.Status) bool { return s.State == ccm.StateDraining }, "draining")
	giveUp()
	if err := <-stopped; err == nil {
		t.Fatal("Stop says that all has ended")
	}
	return app, m, sync.OnceFunc(func() { close(hold) })
}

func TestModule_StartedAgainWhileItDrains_WaitsForTheEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	app, m, release := drainingApp(t)
	defer release()
	started := make(chan error, 1)
	go func() { started <- startAgain(t.Context(), app) }()
	select {
	case err := <-started:
		t.Fatalf("Start returned %v while the previous run drains", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready && s.Term == 2 }, "ready again")
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestModule_StartedAgainWhileItDrains_NamesWhatRunsAtItsDeadline(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	app, m, release := drainingApp(t)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := startAgain(ctx, app)
	if err == nil || !strings.Contains(err.Error(), "the previous run has not ended; still running: controller mine") {
		t.Errorf("Start returned %v, want an error that names controller mine", err)
	}
	release()
	<-m.Done()
}

// A term that was given up is waited for, too: Run refuses to begin beside it.
func TestModule_StartedAgainAfterADrainTimeout_WaitsForWhatIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	release := make(chan struct{})
	p := standaloneParams("mine")
	p.Config.DrainTimeout = metav1.Duration{Duration: 50 * time.Millisecond}
	var m *ccm.Manager
	app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(slow("mine", release)), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready }, "ready")
	var timedOut *ccm.DrainTimeoutError
	if err := app.Stop(t.Context()); !errors.As(err, &timedOut) {
		t.Fatalf("Stop returned %v, want a DrainTimeoutError", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := startAgain(ctx, app); err == nil || !strings.Contains(err.Error(), "still running: controller mine") {
		t.Errorf("Start returned %v, want an error that names controller mine", err)
	}
	close(release)
	if err := startAgain(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready && s.Term == 2 }, "ready again")
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReplaceProviders_RealOneIsNotBuilt(t *testing.T) {
	p := standaloneParams("mine")
	built := false
	var m *ccm.Manager
	err := fx.New(host(p,
		fx.Provide(ccm.AsProvider(func() ccm.Provider { built = true; return provider(nil) })),
		supplyController(idle("mine")),
		ccm.ReplaceProviders(p.Providers...),
		fx.Populate(&m),
	)).Err()
	if err != nil {
		t.Fatal(err)
	}
	if built {
		t.Error("the real provider's constructor was called")
	}
	if got := m.Status().Provider; got != "empty" {
		t.Errorf("provider is %q, want the replacement", got)
	}
}

// BenchmarkModule_Start measures what a host's start pays: fx's OnStart of the module, with an API
// server that does not answer. It is to stay below 10 ms.
func BenchmarkModule_Start(b *testing.B) {
	p := standaloneParams("*")
	p.Config.LeaderElection.LeaderElect = true
	app := fx.New(host(p, supplyProvider(p.Providers[0])))
	for b.Loop() {
		if err := app.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := app.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
