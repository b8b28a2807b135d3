// Package leaks tests that a process which has led twenty times, or has failed to start twenty
// times, leaks no goroutines, connections, event handlers or memory.
package leaks
