//go:build !linux

package main

import "syscall"

// childAttributes has nothing to add: the terminal's Ctrl-C stops replicas and demo at once.
func childAttributes() *syscall.SysProcAttr { return nil }
