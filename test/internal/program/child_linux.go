package program

import "syscall"

// childAttributes ties the child to this process: it dies when we die, however we die. A group of
// its own keeps the terminal's Ctrl-C from it; it is ended by us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
