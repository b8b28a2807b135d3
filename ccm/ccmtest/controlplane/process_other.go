//go:build !unix

package controlplane

import "os"

// terminate kills: there is no signal to ask with.
func terminate(p *os.Process) error { return p.Kill() }
