//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package serving

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// canShare reports whether this system has SO_REUSEPORT and a safe SO_REUSEADDR.
const canShare = true

// shareSocket returns a net.ListenConfig.Control.
func shareSocket(port, address bool) func(network, addr string, conn syscall.RawConn) error {
	var options []int
	if port {
		options = append(options, unix.SO_REUSEPORT)
	}
	if address {
		options = append(options, unix.SO_REUSEADDR)
	}
	return func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) {
			for _, option := range options {
				if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1); err != nil {
					failed = err
				}
			}
		})
		if err != nil {
			return err
		}
		return failed
	}
}
