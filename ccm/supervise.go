package ccm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// builtController is a controller that belongs to a term.
type builtController struct {
	Controller
	// scope is the term as this controller sees it.
	scope *Term
	// runnable is nil until New succeeds.
	runnable Runnable
	// err is why there is no runnable.
	err     error
	started bool
	// panicked ends with the first panic of the controller's event handlers as its cause.
	panicked context.Context
}

// builtControllers are the controllers of a term. It is safe for concurrent use.
type builtControllers struct {
	mu  sync.Mutex
	all []*builtController
}

func (s *builtControllers) add(b *builtController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, b)
}

func (s *builtControllers) list() []*builtController {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func (s *builtControllers) start(b *builtController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.started = true
}

// unstarted returns the controllers that have a runnable and were not started.
func (s *builtControllers) unstarted() []*builtController {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all),
		func(b *builtController) bool { return b.started || b.runnable == nil })
}

// buildControllers builds the enabled controllers in name order.
func (t *Term) buildControllers(ctx context.Context) error {
	for _, c := range t.enabled {
		b := t.build(ctx, c)
		switch {
		case errors.Is(b.err, ErrSkip):
			t.skipped(c, b.err)
			continue
		case b.err != nil && c.OnFailure == EndTerm:
			err := fmt.Errorf("controller %s: %w", c.Name, b.err)
			t.status.controller(c.Name, ControllerFailed, err)
			return err
		}
		t.built.add(b)
	}
	return nil
}

func (t *Term) skipped(c Controller, reason error) {
	t.log.Info("Controller skipped", "controller", c.Name, "reason", reason.Error())
	t.status.controller(c.Name, ControllerSkipped, reason)
}

// build builds a controller with its own view of the term.
func (t *Term) build(ctx context.Context, c Controller) *builtController {
	panicked, panicking := context.WithCancelCause(context.Background())
	b := &builtController{Controller: c, panicked: panicked, scope: t.scope(panicking)}
	b.err = protect("New", func() (err error) {
		b.runnable, err = c.New(ctx, b.scope)
		return err
	})
	if b.err == nil && b.runnable == nil {
		b.err = errors.New("New returned neither a Runnable nor an error")
	}
	if b.err != nil {
		b.runnable = nil
		b.scope.release()
	}
	return b
}

// startControllers runs each built controller in its own goroutine.
func (t *Term) startControllers(ctx, life context.Context) error {
	for i, b := range t.built.list() {
		if pause := t.config.ControllerStartInterval.Duration; i > 0 && pause > 0 {
			select {
			case <-time.After(time.Duration(float64(pause) * (1 + rand.Float64()))):
			case <-life.Done():
				return context.Cause(life)
			}
		}
		t.built.start(b)
		if b.runnable != nil {
			t.status.running(b.Name, b.runnable)
		}
		t.spawn("controller "+b.Name, func() { t.supervise(ctx, b) })
	}
	t.status.ready()
	t.log.Info("Term is ready")
	return nil
}

// supervise runs a controller until the term ends. An earlier end restarts the controller, or ends
// the term.
func (t *Term) supervise(ctx context.Context, b *builtController) {
	delay := retryBackoff(t.clock)
	for {
		err := b.err
		if b.runnable != nil {
			err = t.runBuilt(ctx, b)
		}
		switch {
		case ctx.Err() != nil:
			t.status.controller(b.Name, ControllerStopped, nil)
			return
		case errors.Is(b.err, ErrSkip):
			t.skipped(b.Controller, b.err)
			return
		}
		err = fmt.Errorf("controller %s: %w", b.Name, err)
		if b.OnFailure == EndTerm {
			t.status.controller(b.Name, ControllerFailed, err)
			t.fail(err)
			return
		}
		pause := delay()
		t.log.Error(err, "Controller failed; restarting it", "controller", b.Name, "retryIn", pause)
		t.status.retrying(b.Name, err, t.clock.Now().Add(pause))
		b.scope.release()
		select {
		case <-t.clock.After(pause):
			b = t.rebuild(ctx, b.Controller)
		case <-ctx.Done():
		}
	}
}

// runBuilt runs a controller until it ends.
func (t *Term) runBuilt(ctx context.Context, b *builtController) error {
	t.status.running(b.Name, b.runnable)
	log := t.log.WithValues("controller", b.Name)
	running, stop := context.WithCancelCause(klog.NewContext(ctx, log))
	defer stop(nil)
	defer context.AfterFunc(b.panicked, func() {
		stop(fmt.Errorf("event handler: %w", context.Cause(b.panicked)))
	})()
	err := protect("Run", func() error { return b.runnable.Run(running) })
	if running.Err() != nil && ctx.Err() == nil {
		err = errors.Join(context.Cause(running), err)
	}
	if err == nil {
		err = errors.New("Run returned before the term ended")
	}
	return err
}

// rebuild builds a controller again within its term, and waits for informers that are new to the
// term.
func (t *Term) rebuild(ctx context.Context, c Controller) *builtController {
	b := t.build(ctx, c)
	if b.err != nil {
		return b
	}
	if err := t.syncInformers(ctx, ctx); err != nil {
		t.endUnstarted(ctx, b)
		b.runnable, b.err = nil, err
	}
	return b
}

// endUnstarted runs controllers that were built and not started, with an ended context: upstream's
// controllers start work queues in their constructors, and shut them down in Run.
func (t *Term) endUnstarted(ctx context.Context, all ...*builtController) {
	// Upstream's messages about a start that ends at once would mislead.
	ended, end := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	end()
	for _, b := range all {
		t.spawn("controller "+b.Name, func() {
			if err := protect("Run", func() error { return b.runnable.Run(ended) }); err != nil {
				t.log.Error(err, "Controller without a start did not end cleanly",
					"controller", b.Name)
			}
		})
	}
}
