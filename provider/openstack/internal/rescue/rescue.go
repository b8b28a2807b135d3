// Package rescue keeps a panic on a goroutine of the provider's own from ending the host's process: on those of callers the Manager does so.
package rescue

import "fmt"

// Panic calls f, and makes an error of a panic. The error has what the panic said, but no stack: errors end up in events.
func Panic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}
