package main

import "syscall"

// childAttributes keeps the terminal's Ctrl-C from a replica, which the demo stops in order, and
// ends it with the demo however that ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
