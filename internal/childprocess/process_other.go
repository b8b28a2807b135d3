//go:build !linux

package childprocess

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// Memory returns 0: the resident memory is known on Linux only.
func (p *Process) Memory() float64 { return 0 }

// killGroup does nothing: the child shares the group of this process.
func killGroup(*os.Process) {}
