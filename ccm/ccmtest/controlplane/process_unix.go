//go:build unix

package controlplane

import (
	"os"
	"syscall"
)

// terminate signals the process to end. It also resumes it, because a frozen process does not
// handle the signal.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT)
}
