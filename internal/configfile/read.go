// Package configfile reads configuration files, with a limit of their size.
package configfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxBytes limits a file. A Secret or ConfigMap of Kubernetes is not larger.
const MaxBytes = 1 << 20

var errKind = errors.New("neither a regular file nor a pipe")

// Read reads a regular file or a pipe of at most MaxBytes. Other files, such as devices, may have
// no end. Its errors are [fs.PathError].
func Read(path string) ([]byte, error) { return ReadUpTo(path, MaxBytes) }

// Check returns the error of [Read] for a file that it would not read because of its kind or size,
// for files that another library reads. It accepts an empty path, which names no file.
func Check(path string) error {
	if path == "" {
		return nil
	}
	return check(path, MaxBytes)
}

func check(path string, limit int64) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return refuse(path, syscall.EISDIR)
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeNamedPipe:
		return refuse(path, errKind)
	case info.Mode().IsRegular() && info.Size() > limit:
		return refuse(path, sizeError(limit))
	}
	return nil
}

func refuse(path string, reason error) error {
	return &fs.PathError{Op: "read", Path: path, Err: reason}
}

func sizeError(limit int64) error { return fmt.Errorf("larger than %d MiB", limit>>20) }

// ReadUpTo is [Read] with another limit in bytes.
func ReadUpTo(path string, limit int64) ([]byte, error) {
	// Opening a device can have effects, so its kind is checked before.
	if err := check(path, limit); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, refuse(path, sizeError(limit))
	}
	return content, err
}
