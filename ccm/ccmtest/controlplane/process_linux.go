package controlplane

import (
	"os"
	"syscall"
)

// childAttributes ties the child to this process: it dies when we die, however we die. A group of
// its own keeps the terminal's Ctrl-C from it, so that a program that stops at Ctrl-C still has its
// API server to say goodbye to.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// terminate asks the process to end. A frozen process must be thawed to receive the signal.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT)
}
