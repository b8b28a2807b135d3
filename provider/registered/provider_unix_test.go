//go:build unix

package registered_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

// Nobody writes to the pipe: to open it would hang for ever.
func TestProvider_WhenTheFileIsAPipe_SaysThatItCannotBeReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := build(register(t, never(t)), path)
	wants(t, err, path, "cannot be read again")
}
