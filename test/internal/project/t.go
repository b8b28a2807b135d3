package project

import "context"

// T is what a Project needs of a test. Every testing.TB is one; a program that measures has its
// own.
type T interface {
	Helper()
	// Context ends when the test does, before Cleanup.
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	// Fatal and Fatalf do not return: they end the goroutine.
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
