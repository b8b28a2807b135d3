//go:build unix && !linux

package controlplane

import (
	"os"
	"syscall"
)

// childAttributes leaves the child in our process group. There is no parent death signal here; the
// terminal's Ctrl-C, which goes to the group, is what ends the child when a test run is aborted.
func childAttributes() *syscall.SysProcAttr { return nil }

// terminate asks the process to end. A frozen process must be thawed to receive the signal.
func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Signal(syscall.SIGCONT)
}
