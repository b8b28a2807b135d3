//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package controlplane

import "os"

// lockFile creates the file and fails if it exists: where there is no flock(2), no folder is ever
// taken for abandoned.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}
