// Package leaks holds the tests that a process which has led twenty times, or has failed to twenty
// times, is as it was before: goroutines, connections, event handlers, memory.
package leaks
