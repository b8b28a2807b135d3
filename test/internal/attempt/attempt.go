// Package attempt gives a program the functions of package testing: a failure ends the attempt at
// once, and Cleanup runs however the attempt ends.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// A T is an attempt. Only its goroutine may call its methods, except Context and Abort.
type T struct {
	ctx      context.Context
	abort    context.CancelCauseFunc
	errs     []error
	cleanups []func()
	// cleaning means that the context has ended because the attempt has.
	cleaning bool
}

// Run calls do in an attempt, on its own goroutine, and then the functions of Cleanup. The error
// joins all failures, and the cause of the context's cancellation. A deadline is not a failure if
// do did not fail because of it.
func Run(ctx context.Context, do func(*T)) error {
	t, done := &T{}, make(chan struct{})
	t.ctx, t.abort = context.WithCancelCause(ctx)
	go func() {
		defer close(done)
		defer t.cleanUp()
		defer t.endContext()
		do(t)
	}()
	<-done
	return errors.Join(t.errs...)
}

// endContext ends the context before Cleanup, as package testing does.
func (t *T) endContext() {
	cause := context.Cause(t.ctx)
	if errors.Is(t.ctx.Err(), context.Canceled) && !errors.Is(errors.Join(t.errs...), cause) {
		t.Note(cause)
	}
	t.cleaning = true
	t.abort(nil)
}

// cleanUp calls the functions of Cleanup, the last first. All are called, even if one of them ends
// the goroutine.
func (t *T) cleanUp() {
	if len(t.cleanups) == 0 {
		return
	}
	last := t.cleanups[len(t.cleanups)-1]
	t.cleanups = t.cleanups[:len(t.cleanups)-1]
	defer t.cleanUp()
	last()
}

// Helper does nothing. With it, T is a T of package project.
func (t *T) Helper() {}

// Context ends before Cleanup, or earlier by Abort.
func (t *T) Context() context.Context { return t.ctx }

// Abort ends the context because of err.
func (t *T) Abort(err error) { t.abort(err) }

// Cleanup registers f, which is called when the attempt ends. The last is called first.
func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Note records err if it is not nil, and continues.
func (t *T) Note(err error) {
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// Check ends the attempt if err is not nil. If the context has ended, its cause replaces err,
// because a canceled call has no useful error.
func (t *T) Check(err error) {
	if err == nil {
		return
	}
	if cause := context.Cause(t.ctx); cause != nil && !t.cleaning && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	t.Note(err)
	runtime.Goexit()
}

// Errorf records a failure and continues.
func (t *T) Errorf(format string, args ...any) { t.Note(fmt.Errorf(format, args...)) }

// Fatal ends the attempt.
func (t *T) Fatal(args ...any) { t.Check(errors.New(fmt.Sprint(args...))) }

// Fatalf ends the attempt.
func (t *T) Fatalf(format string, args ...any) { t.Check(fmt.Errorf(format, args...)) }
