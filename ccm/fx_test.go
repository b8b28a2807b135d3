package ccm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

// host returns an app whose Manager always leads and runs controller "mine".
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

func TestModule_Graph_IsComplete(t *testing.T) {
	p := standaloneParams("*")
	if err := fx.ValidateApp(host(p, supplyProvider(p.Providers[0]))); err != nil {
		t.Error(err)
	}
}

func TestModule_InvalidInput_IsAnErrorOfNew(t *testing.T) {
	p := standaloneParams("*")
	cases := map[string]struct {
		app  fx.Option
		want string
	}{
		"no provider": {host(p), "no cloud provider was given"},
		"several providers": {
			host(p, supplyProvider(p.Providers[0]),
				supplyProvider(provider(func() (cloudprovider.Interface,
					error,
				) {
					return emptyCloud(), nil
				}))),
			"several cloud providers",
		},
		"duplicate controller": {
			host(p, supplyProvider(p.Providers[0]),
				supplyController(idle("mine")), supplyController(idle("mine"))),
			"Params.Controllers[mine]",
		},
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

func TestModule_StartedAgainAfterAStop_Runs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := standaloneParams("mine")
	var m *ccm.Manager
	app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(idle("mine")),
		fx.Populate(&m)))
	for round := uint64(1); round <= 3; round++ {
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, m.Status, func(s status.Manager) bool { return s.Ready && s.Term == round },
			"ready")
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := m.Status(); s.State != status.Stopped || len(s.Running) > 0 {
			t.Fatalf("after Stop: %+v", s)
		}
	}
}

// OnStart must not wait for the API server or the provider.
func TestModule_StartWithoutAPIServer_ReturnsAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := standaloneParams("*")
	p.Config.LeaderElection.LeaderElect = true
	var m *ccm.Manager
	app := fx.New(host(p, supplyProvider(p.Providers[0]), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.Status, func(s status.Manager) bool {
		return s.State == status.Degraded &&
			strings.Contains(s.Reason, "the API server is down or its address is wrong")
	}, "degraded because of the API server")
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// startApp runs an app whose Manager runs controller "mine".
func startApp(t *testing.T, p ccm.Params, mine ccm.Controller) (app *fx.App, m *ccm.Manager) {
	t.Helper()
	app = fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(mine), fx.Populate(&m)))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitReady(t, m)
	return app, m
}

func TestModule_StopWithAStuckController_ReturnsBeforeTheDeadlineAndNamesIt(t *testing.T) {
	for _, deadline := range []time.Duration{2 * time.Second, 200 * time.Millisecond} {
		t.Run(deadline.String(), func(t *testing.T) { stopStuck(t, deadline) })
	}
}

func stopStuck(t *testing.T, deadline time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := standaloneParams("mine")
		p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
		app, m := startApp(t, p, stubborn("mine", release))
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		err := app.Stop(ctx)
		var timedOut *ccm.DrainTimeoutError
		if !errors.As(err, &timedOut) || !strings.Contains(err.Error(), "controller mine") {
			t.Errorf("Stop returned %v, want a DrainTimeoutError that names controller mine", err)
		}
		if ctx.Err() != nil {
			t.Error("Stop used the whole deadline, so fx would skip the hooks of the host")
		}
		close(release)
		synctest.Wait()
		if s := m.Status(); len(s.Running) > 0 {
			t.Errorf("still running: %v", s.Running)
		}
	})
}

// startAgain starts an app whose stop has timed out. Fx refuses until its stop hooks have returned.
func startAgain(ctx context.Context, app *fx.App) error {
	for {
		err := app.Start(ctx)
		if err == nil || !strings.Contains(err.Error(), "in state: stopping") {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// drainingApp is an app whose stop has timed out. Its Manager waits for controller "mine", which
// ends after release.
func drainingApp(t *testing.T) (app *fx.App, m *ccm.Manager, release func()) {
	t.Helper()
	hold := make(chan struct{})
	p := standaloneParams("mine")
	p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
	app, m = startApp(t, p, stubborn("mine", hold))
	// Without a deadline of the context, the drain has an hour.
	ctx, giveUp := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- app.Stop(ctx) }()
	synctest.Wait()
	if s := m.Status(); s.State != status.Draining {
		t.Fatalf("after Stop was called: %+v", s)
	}
	giveUp()
	if err := <-stopped; err == nil {
		t.Fatal("Stop returned no error although the Manager drains")
	}
	return app, m, func() { close(hold) }
}

func TestModule_StartedAgainWhileItDrains_WaitsForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, m, release := drainingApp(t)
		started := make(chan error, 1)
		go func() { started <- startAgain(t.Context(), app) }()
		time.Sleep(time.Minute)
		select {
		case err := <-started:
			t.Fatalf("Start returned %v while the previous run drains", err)
		default:
		}
		release()
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 2 {
			t.Errorf("after the second start: %+v", s)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestModule_StartedAgainWhileItDrains_NamesTheStuckControllerAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, m, release := drainingApp(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := startAgain(ctx, app)
		const want = "the previous run has not ended; still running: controller mine"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start returned %v, want an error that names controller mine", err)
		}
		release()
		<-m.Done()
	})
}

// Run refuses to begin while a term is left behind, so a start waits for that term, too.
func TestModule_StartedAgainAfterADrainTimeout_WaitsForTheTimedOutTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		app, m := startApp(t, standaloneParams("mine"), stubborn("mine", release))
		var timedOut *ccm.DrainTimeoutError
		if err := app.Stop(t.Context()); !errors.As(err, &timedOut) {
			t.Fatalf("Stop returned %v, want a DrainTimeoutError", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := startAgain(ctx, app)
		if err == nil || !strings.Contains(err.Error(), "still running: controller mine") {
			t.Errorf("Start returned %v, want an error that names controller mine", err)
		}
		close(release)
		if err := startAgain(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 2 {
			t.Errorf("after the second start: %+v", s)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReplaceProviders_ReplacedProvider_IsNotBuilt(t *testing.T) {
	p := standaloneParams("mine")
	built := false
	var m *ccm.Manager
	err := fx.New(host(p,
		fx.Provide(
			ccm.AsProvider(func() ccm.Provider { built = true; return provider(nil) }),
			ccm.AsProvider(func() *ccm.Provider { built = true; return new(provider(nil)) }),
			ccm.AsProvider(func() cloudprovider.Interface { built = true; return emptyCloud() }),
			func() ccm.Provider { built = true; return provider(nil) },
			func() *ccm.Provider { built = true; return new(provider(nil)) },
			func() []ccm.Provider { built = true; return []ccm.Provider{provider(nil)} },
		),
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

// BenchmarkModule_Start measures the module's OnStart with an API server that does not answer. It
// must stay below 10 ms.
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

type ownCloud struct{ cloudprovider.Interface }

// New refuses names of controllers that do not exist.
func TestAsController_PointerOrList_IsTaken(t *testing.T) {
	p := standaloneParams("one", "two", "three")
	var m *ccm.Manager
	err := fx.New(host(p,
		fx.Provide(
			ccm.AsController(func() *ccm.Controller { return new(idle("one")) }),
			ccm.AsController(func() ([]ccm.Controller, error) {
				return []ccm.Controller{idle("two"), idle("three")}, nil
			}),
			ccm.AsProvider(func() cloudprovider.Interface { return emptyCloud() }),
		),
		fx.Populate(&m),
	)).Err()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Status().Provider; got != "empty" {
		t.Errorf("provider is %q, want the cloud's", got)
	}
}

// Fx would put the result into a group that no module reads.
func TestAsController_ConstructorOfAnotherType_IsAnErrorOfNew(t *testing.T) {
	build := func(ctx context.Context, term *ccm.Term) (ccm.Runnable, error) {
		return idle("mine").New(ctx, term)
	}
	for name, test := range map[string]struct {
		annotated any
		want      []string
	}{
		"list of pointers": {
			ccm.AsController(func() []*ccm.Controller { return nil }),
			[]string{"returns a ccm.Controller", "got func() []*ccm.Controller"},
		},
		"nil": {
			ccm.AsController(func() *ccm.Controller { return nil }),
			[]string{"AsController has returned nil"},
		},
		"method New": {
			ccm.AsController(build), []string{"returns a ccm.Controller", "*ccm.Term"},
		},
		"cloud of a type": {
			ccm.AsProvider(func() ownCloud { return ownCloud{} }),
			[]string{"returns a ccm.Provider", "as a cloudprovider.Interface"},
		},
		"no cloud": {
			ccm.AsProvider(func() cloudprovider.Interface { return nil }),
			[]string{"AsProvider has returned nil"},
		},
		"hook": {
			ccm.AsSurroundingHook(func() *fx.Hook { return nil }),
			[]string{"returns a fx.Hook", "got func() *fx.Hook"},
		},
	} {
		p := standaloneParams("*")
		err := fx.New(host(p, supplyProvider(p.Providers[0]), fx.Provide(test.annotated))).Err()
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: fx.New returned %v, want %q in it", name, err, want)
			}
		}
	}
}
