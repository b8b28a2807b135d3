package ccm_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

// startHook is a module whose only part is a hook.
func startHook(name string, start func(context.Context) error) fx.Option {
	return fx.Module(name, fx.Invoke(func(lifecycle fx.Lifecycle) {
		lifecycle.Append(fx.Hook{OnStart: start})
	}))
}

func nothing(context.Context) error { return nil }

// Fx calls no stop hook after the context of the start has ended.
func TestModule_StartTimesOutInAHook_NoManagerIsLeftAfterStop(t *testing.T) {
	for name, test := range map[string]struct {
		order func(manager, slow fx.Option) fx.Option
		leads bool
	}{
		"manager first": {func(manager, slow fx.Option) fx.Option {
			return fx.Options(manager, startHook("other", nothing), slow)
		}, true},
		"manager between": {func(manager, slow fx.Option) fx.Option {
			return fx.Options(startHook("other", nothing), manager, slow)
		}, true},
		"manager last": {func(manager, slow fx.Option) fx.Option {
			return fx.Options(slow, startHook("other", nothing), manager)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := standaloneParams("mine")
				var m *ccm.Manager
				led := false
				slow := startHook("slow", func(ctx context.Context) error {
					time.Sleep(time.Second)
					led = m.Status().Ready
					<-ctx.Done()
					return ctx.Err()
				})
				app := fx.New(
					fx.Supply(p.Config, p.RESTConfig, p.Logger), fx.NopLogger,
					supplyProvider(p.Providers[0]), supplyController(idle("mine")),
					test.order(ccm.Module, slow),
					fx.StartTimeout(3*time.Second), fx.Populate(&m),
				)
				ctx, cancel := context.WithTimeout(t.Context(), app.StartTimeout())
				defer cancel()
				if err := app.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Start returned %v, want its deadline", err)
				}
				synctest.Wait() // the rollback ends after Start
				if led != test.leads {
					t.Errorf("the Manager leads during the start: %t, want %t", led, test.leads)
				}
				if err := app.Stop(t.Context()); err != nil {
					t.Errorf("Stop: %v", err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if s := m.Status(); s.State != status.Stopped || len(s.Running) > 0 {
					t.Errorf("a second after Stop: %+v", s)
				}
			})
		})
	}
}

func TestModule_StartedAgainAfterAStartThatTimedOut_Runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := standaloneParams("mine")
		var m *ccm.Manager
		wait := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(idle("mine")),
			startHook("slow", func(ctx context.Context) error { return wait(ctx) }),
			fx.Populate(&m)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := app.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Start returned %v, want its deadline", err)
		}
		synctest.Wait() // the rollback ends after Start
		wait = nothing
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := startAgain(ctx, app); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 2 {
			t.Errorf("an hour after the second start: %+v", s)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestModule_ContextOfTheStartEndsAfterIt_ManagerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := standaloneParams("mine")
		var m *ccm.Manager
		app := fx.New(host(p, supplyProvider(p.Providers[0]), supplyController(idle("mine")),
			startHook("other", nothing), fx.Populate(&m)))
		ctx, cancel := context.WithCancel(t.Context())
		if err := app.Start(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 1 {
			t.Errorf("an hour after the start: %+v", s)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
