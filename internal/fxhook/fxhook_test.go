package fxhook_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/internal/fxhook"
)

// calls are the calls of a guarded hook, in their order.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

func (c *calls) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.all, want) {
		t.Errorf("the hook was called with %v, want %v", c.all, want)
	}
}

// guarded adds a guarded hook to an app.
func guarded(c *calls) fx.Option {
	return fx.Invoke(func(lifecycle fx.Lifecycle) {
		lifecycle.Append(fxhook.Guard(lifecycle, logr.Discard(), fx.Hook{
			OnStart: func(context.Context) error {
				c.add("start")
				return nil
			},
			OnStop: func(context.Context) error {
				c.add("stop")
				return nil
			},
		}))
	})
}

func hook(h fx.Hook) fx.Option {
	return fx.Invoke(func(lifecycle fx.Lifecycle) { lifecycle.Append(h) })
}

func starts(start func(context.Context) error) fx.Option { return hook(fx.Hook{OnStart: start}) }

func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func fails(context.Context) error { return errors.New("the hook cannot start") }

func succeeds(context.Context) error { return nil }

// soon is longer than the guard takes.
const soon = time.Second

func TestGuard_StartFails_HookIsStoppedOnce(t *testing.T) {
	for name, parts := range map[string]func(c *calls) fx.Option{
		"a later hook returns at the deadline": func(c *calls) fx.Option {
			return fx.Options(guarded(c), starts(untilEnd))
		},
		"the hook is between others": func(c *calls) fx.Option {
			return fx.Options(starts(succeeds), guarded(c), starts(succeeds), starts(untilEnd))
		},
		"a later hook fails": func(c *calls) fx.Option {
			return fx.Options(guarded(c), starts(fails))
		},
		"a later hook ignores the deadline": func(c *calls) fx.Option {
			return fx.Options(guarded(c), starts(func(context.Context) error {
				time.Sleep(time.Minute)
				return nil
			}), starts(succeeds))
		},
		"the last hook ignores the deadline": func(c *calls) fx.Option {
			return fx.Options(guarded(c), starts(func(context.Context) error {
				time.Sleep(time.Minute)
				return nil
			}))
		},
		"a later hook has recovered a panic": func(c *calls) fx.Option {
			return fx.Options(guarded(c), starts(func(context.Context) (err error) {
				defer func() { err, _ = recover().(error) }()
				panic(errors.New("the hook panics"))
			}))
		},
		"the goroutine of a later hook exits": func(c *calls) fx.Option {
			return fx.Options(guarded(c), starts(func(context.Context) error {
				runtime.Goexit()
				return nil
			}))
		},
		"another hook uses the time of the rollback": func(c *calls) fx.Option {
			return fx.Options(guarded(c), hook(fx.Hook{OnStop: untilEnd}), starts(fails))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &calls{}
				app := fx.New(fx.NopLogger, parts(c))
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if err := app.Start(ctx); err == nil {
					t.Fatal("Start returned no error")
				}
				if err := app.Stop(t.Context()); err != nil {
					t.Errorf("Stop: %v", err)
				}
				time.Sleep(soon)
				c.want(t, "start", "stop")
				time.Sleep(time.Hour)
				c.want(t, "start", "stop")
			})
		})
	}
}

// The host need not call Stop.
func TestGuard_StartIsCanceled_HookIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		app := fx.New(fx.NopLogger, guarded(c), starts(untilEnd))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := app.Start(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Start returned %v", err)
		}
		time.Sleep(soon)
		c.want(t, "start", "stop")
	})
}

func TestGuard_HookBeforeItFails_HookIsNeitherStartedNorStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		app := fx.New(fx.NopLogger, starts(untilEnd), guarded(c))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := app.Start(ctx); err == nil {
			t.Fatal("Start returned no error")
		}
		time.Sleep(soon)
		c.want(t)
	})
}

func TestGuard_AnotherHookUsesTheTimeOfTheStop_HookIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		app := fx.New(fx.NopLogger, guarded(c), hook(fx.Hook{OnStop: untilEnd}))
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := app.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Stop returned %v", err)
		}
		time.Sleep(soon)
		c.want(t, "start", "stop")
	})
}

func TestGuard_ContextOfASuccessfulStartEnds_HookRunsUntilStop(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": context.WithCancel,
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, func() {
				time.Sleep(time.Minute)
				cancel()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &calls{}
				app := fx.New(fx.NopLogger, guarded(c), starts(succeeds))
				for range 2 {
					ctx, end := end(t.Context())
					if err := app.Start(ctx); err != nil {
						t.Fatal(err)
					}
					end()
					time.Sleep(time.Hour)
					c.want(t, "start")
					if err := app.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					c.want(t, "start", "stop")
					c.all = nil
				}
			})
		})
	}
}

func TestGuard_StartedAgainAtOnceAfterAStartThatTimedOut_HookIsStoppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		last := untilEnd
		app := fx.New(fx.NopLogger, guarded(c),
			starts(func(ctx context.Context) error { return last(ctx) }))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := app.Start(ctx); err == nil {
			t.Fatal("Start returned no error")
		}
		synctest.Wait() // the rollback ends after Start
		last = succeeds
		if err := app.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.want(t, "start", "stop", "start")
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.want(t, "start", "stop", "start", "stop")
	})
}
