//go:build linux || darwin || freebsd || netbsd || openbsd

package controlplane

import (
	"os"
	"syscall"
)

// lockFile takes the lock of a file, which is made if missing, or fails at once.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
