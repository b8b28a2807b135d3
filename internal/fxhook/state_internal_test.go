package fxhook

import (
	"context"
	"testing"

	"go.uber.org/fx"
)

// The guard has no effect with a version of fx for which this fails.
func TestState_AppStartsAndStops_IsFxsWord(t *testing.T) {
	var lifecycle fx.Lifecycle
	during := map[string]string{}
	app := fx.New(fx.NopLogger, fx.Populate(&lifecycle), fx.Invoke(func(lifecycle fx.Lifecycle) {
		lifecycle.Append(fx.Hook{
			OnStart: func(context.Context) error {
				during["start"] = state(lifecycle)
				return nil
			},
			OnStop: func(context.Context) error {
				during["stop"] = state(lifecycle)
				return nil
			},
		})
	}))
	during["before"] = state(lifecycle)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	during["between"] = state(lifecycle)
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	during["after"] = state(lifecycle)
	for when, want := range map[string]string{
		"before": stopped, "start": "starting", "between": "started", "stop": "stopping",
		"after": stopped,
	} {
		if during[when] != want {
			t.Errorf("%s: the state is %q, want %q", when, during[when], want)
		}
	}
}

// decorated hides fx's own lifecycle.
type decorated struct{ fx.Lifecycle }

func TestState_LifecycleOfAnotherType_IsUnknown(t *testing.T) {
	var lifecycle fx.Lifecycle
	fx.New(fx.NopLogger, fx.Populate(&lifecycle))
	for name, l := range map[string]fx.Lifecycle{
		"none": nil, "value": decorated{lifecycle}, "pointer": &decorated{lifecycle},
	} {
		if got := state(l); got != "" {
			t.Errorf("%s: the state is %q, want none", name, got)
		}
	}
}
