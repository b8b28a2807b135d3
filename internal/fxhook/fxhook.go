// Package fxhook guards hooks of an fx app, whose OnStop fx does not always call.
//
// Fx skips the remaining stop hooks as soon as the context of the call has ended: in the rollback
// of a start that timed out or was canceled, and in a stop in which other hooks used the whole
// time. After that the app is stopped for fx, and App.Stop does nothing. The source is
// internal/lifecycle/lifecycle.go of go.uber.org/fx v1.24.0.
package fxhook

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
)

// statePoll is the pause between two looks at the state of the app.
const statePoll = 200 * time.Millisecond

// Guard returns hook with the promise that one OnStop follows each successful OnStart. If fx skips
// OnStop, the guard logs that, and calls OnStop within statePoll and with a context that does not
// end. If the app starts again before that, OnStop is called first, and its error is that of the
// start.
//
// The end of OnStart's context has no meaning for the guard, because that context also ends after a
// successful start.
func Guard(lifecycle fx.Lifecycle, log logr.Logger, hook fx.Hook) fx.Hook {
	g := &guard{lifecycle: lifecycle, log: log, hook: hook, turn: make(chan struct{}, 1)}
	return fx.Hook{OnStart: g.start, OnStop: g.stop}
}

type guard struct {
	lifecycle fx.Lifecycle
	log       logr.Logger
	hook      fx.Hook
	// turn has an element while the hook starts or stops.
	turn chan struct{}
	// unwatch ends the watch of the current run. It is nil if the hook has not started.
	unwatch context.CancelFunc
}

func (g *guard) start(ctx context.Context) error {
	return g.inTurn(ctx, func() error {
		if err := g.end(ctx); err != nil {
			return err
		}
		if g.hook.OnStart != nil {
			if err := g.hook.OnStart(ctx); err != nil {
				return err
			}
		}
		var watching context.Context
		watching, g.unwatch = context.WithCancel(context.WithoutCancel(ctx))
		go g.watch(watching)
		return nil
	})
}

func (g *guard) stop(ctx context.Context) error {
	return g.inTurn(ctx, func() error { return g.end(ctx) })
}

// inTurn calls f when no other start or stop runs.
func (g *guard) inTurn(ctx context.Context, f func() error) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
		return f()
	case <-ctx.Done():
		return fmt.Errorf("an earlier start or stop has not ended: %w", context.Cause(ctx))
	}
}

// end stops the hook if it has started.
func (g *guard) end(ctx context.Context) error {
	if g.unwatch == nil {
		return nil
	}
	g.unwatch()
	g.unwatch = nil
	if g.hook.OnStop == nil {
		return nil
	}
	return g.hook.OnStop(ctx)
}

// watch stops the hook if fx has stopped the app without the hook. It returns when ctx ends, which
// is when the hook stops.
func (g *guard) watch(ctx context.Context) {
	ticker := time.NewTicker(statePoll)
	defer ticker.Stop()
	for state(g.lifecycle) != stopped {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	// An error means that fx stops the hook after all, or starts it again.
	_ = g.inTurn(ctx, func() error {
		if ctx.Err() != nil {
			return nil
		}
		g.log.Info("Fx has stopped the app without this stop hook, because the start or the stop " +
			"timed out or was canceled; stopping now")
		if err := g.end(context.WithoutCancel(ctx)); err != nil {
			g.log.Error(err, "Stop failed")
		}
		return nil
	})
}
