//go:build !unix

package controlplane

import "os"

// terminate kills the process, because this system has no signal for it.
func terminate(p *os.Process) error { return p.Kill() }
