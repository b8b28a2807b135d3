//go:build unix

package controlplane

import (
	"os"
	"syscall"
)

// terminate asks the process to end. A frozen process must be thawed to receive the signal.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT)
}
