// Package rescue turns panics into errors, so that a panic in a provider, a controller or an event
// handler does not end the host's process.
package rescue

import "fmt"

// Call calls f and returns its error. If f panics, Call returns the error that asError makes of the
// panic's value. debug.Stack in asError includes the frames that panicked.
func Call(f func() error, asError func(value any) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = asError(value)
		}
	}()
	return f()
}

// Panic is [Call] with an error that contains the panic's value. It omits the stack, because errors
// are written to events.
func Panic(f func() error) error {
	return Call(f, func(value any) error { return fmt.Errorf("panic: %v", value) })
}
