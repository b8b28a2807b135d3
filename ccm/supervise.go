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

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/printable"
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

// endsTerm reports whether a failure of the controller ends the term. A cloud controller
// that cannot start is retried instead, and the others serve meanwhile. Once it has started, its
// workers may still be busy when Run returns, and new ones would work on the same objects.
func (c Controller) endsTerm(hasStarted bool) bool {
	return !c.RestartOnFailure && (hasStarted || !c.isBuiltin)
}

// buildControllers builds the enabled controllers in name order.
func (t *termRun) buildControllers(ctx context.Context) error {
	for _, c := range t.enabled {
		b := t.build(ctx, c)
		switch {
		case errors.Is(b.err, ErrSkip):
			t.skipped(c, b.err)
			continue
		case b.err != nil && c.endsTerm(false):
			err := fmt.Errorf("controller %s: %w", c.Name, b.err)
			t.status.controller(c.Name, status.ControllerFailed, err)
			return err
		}
		t.built.add(b)
	}
	return nil
}

func (t *termRun) skipped(c Controller, reason error) {
	t.log.Info("Controller skipped", "controller", c.Name, "reason", reason.Error())
	t.status.controller(c.Name, status.ControllerSkipped, reason)
}

// build builds a controller with its own view of the term.
func (t *termRun) build(ctx context.Context, c Controller) *builtController {
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

// startControllers runs each built controller in its own goroutine, and returns when each of them
// runs or has failed to start. If none runs, the term fails, because another replica may be able to
// start them.
func (t *termRun) startControllers(ctx, life context.Context) error {
	built := t.built.list()
	starts := make(chan error, len(built))
	for i, b := range built {
		if pause := t.config.ControllerStartInterval.Duration; i > 0 && pause > 0 {
			select {
			case <-time.After(time.Duration(float64(pause) * (1 + rand.Float64()))):
			case <-life.Done():
				return context.Cause(life)
			}
		}
		t.built.start(b)
		t.spawn("controller "+b.Name, func() { t.supervise(ctx, b, starts) })
	}
	var failures []error
	for range built {
		select {
		case err := <-starts:
			if err != nil {
				failures = append(failures, err)
			}
		case <-life.Done():
			return context.Cause(life)
		}
	}
	if len(failures) == len(built) && slices.ContainsFunc(built,
		func(b *builtController) bool { return !b.RestartOnFailure }) {
		return errors.Join(failures...)
	}
	t.status.ready()
	t.log.Info("Term is ready")
	return nil
}

// supervise runs a controller until the term ends. An earlier end restarts the controller, or ends
// the term. It sends the result of the first start to starts.
func (t *termRun) supervise(ctx context.Context, b *builtController, starts chan<- error) {
	var once sync.Once
	report := func(err error) { once.Do(func() { starts <- err }) }
	delay, lastCause := retryBackoff(t.clock), ""
	for {
		t.sync(ctx, b)
		err, hasStarted := b.err, b.runnable != nil
		if hasStarted {
			t.status.running(b.Name, b.runnable)
			report(nil)
			err = t.runBuilt(ctx, b)
		}
		switch {
		case ctx.Err() != nil:
			t.status.controller(b.Name, status.ControllerStopped, nil)
			return
		case errors.Is(b.err, ErrSkip):
			t.skipped(b.Controller, b.err)
			return
		}
		err = fmt.Errorf("controller %s: %w", b.Name, err)
		if b.endsTerm(hasStarted) {
			t.status.controller(b.Name, status.ControllerFailed, err)
			t.fail(err)
			return
		}
		pause := delay()
		t.log.Error(err, "Controller failed; restarting it", "controller", b.Name, "retryIn",
			pause.Round(time.Millisecond).String())
		t.status.retrying(b.Name, err, t.clock.Now().Add(pause))
		text := explain(err)
		if cause := printable.WithoutIDs(text); cause != lastCause {
			t.warn("ControllerFailed", text+"; the controller is retried")
			lastCause = cause
		}
		report(err)
		b.scope.release()
		select {
		case <-t.clock.After(pause):
			b = t.build(ctx, b.Controller)
		case <-ctx.Done():
		}
	}
}

// sync waits for the informers of a built controller. If they do not sync, it cannot run.
func (t *termRun) sync(ctx context.Context, b *builtController) {
	if b.runnable == nil {
		return
	}
	b.scope.informers.StartWithContext(ctx)
	if err := t.waitForSync(ctx, b.scope.informers); err != nil {
		t.endUnstarted(ctx, b)
		b.runnable, b.err = nil, err
	}
}

// runBuilt runs a controller until it ends.
func (t *termRun) runBuilt(ctx context.Context, b *builtController) error {
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

// endUnstarted runs controllers that were built and not started, with an ended context: upstream's
// controllers start work queues in their constructors, and shut them down in Run.
func (t *termRun) endUnstarted(ctx context.Context, all ...*builtController) {
	// Upstream's messages about a start that ends at once would mislead.
	ended, end := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	end()
	for _, b := range all {
		runnable := b.runnable // a failed sync removes it
		t.spawn("controller "+b.Name, func() {
			if err := protect("Run", func() error { return runnable.Run(ended) }); err != nil {
				t.log.Error(err, "Controller without a start did not end cleanly",
					"controller", b.Name)
			}
		})
	}
}
