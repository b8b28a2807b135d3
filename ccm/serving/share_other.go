//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package serving

import "syscall"

// canShare is false: on Windows SO_REUSEADDR lets any process take a used port.
const canShare = false

func shareSocket(bool, bool) func(network, addr string, conn syscall.RawConn) error { return nil }
