package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// An attempt is what package project needs of a test (project.T), in a program: what was made in it
// is removed when it ends, however it ends.
type attempt struct {
	ctx      context.Context
	errs     []error
	cleanups []func()
}

// attemptTo does something in an attempt, on a goroutine of its own, which may be ended by Fatal.
// It returns when everything is removed again.
func attemptTo(ctx context.Context, do func(*attempt) error) error {
	a, done := &attempt{ctx: ctx}, make(chan struct{})
	go func() {
		defer close(done)
		defer a.cleanUp()
		if err := do(a); err != nil {
			a.errs = append(a.errs, err)
		}
	}()
	<-done
	return errors.Join(a.errs...)
}

// cleanUp calls what was given to Cleanup, the last first: all of it, even if one of them ends the
// goroutine.
func (a *attempt) cleanUp() {
	if len(a.cleanups) == 0 {
		return
	}
	last := a.cleanups[len(a.cleanups)-1]
	a.cleanups = a.cleanups[:len(a.cleanups)-1]
	defer a.cleanUp()
	last()
}

// Helper implements project.T.
func (a *attempt) Helper() {}

// Context implements project.T: it ends when the benchmark is interrupted.
func (a *attempt) Context() context.Context { return a.ctx }

// Cleanup implements project.T.
func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

// Errorf implements project.T.
func (a *attempt) Errorf(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

// Fatal implements project.T.
func (a *attempt) Fatal(args ...any) {
	a.errs = append(a.errs, errors.New(fmt.Sprint(args...)))
	runtime.Goexit()
}

// Fatalf implements project.T.
func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}
