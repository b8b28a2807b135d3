//go:build !unix

package controlplane

import (
	"os"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return nil }

// terminate kills: there is no signal to ask with.
func terminate(p *os.Process) error { return p.Kill() }
