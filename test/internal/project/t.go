package project

import "context"

// T is the part of testing.TB that a Project uses. A benchmark program has its own implementation.
type T interface {
	Helper()
	// Context ends with the test, before Cleanup.
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	// Fatal and Fatalf do not return: they end the goroutine.
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
