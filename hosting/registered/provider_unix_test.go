//go:build unix

package registered_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

// The pipe has no writer: opening it would hang forever.
func TestProvider_WhenTheFileIsAPipe_SaysThatItCannotBeReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := build(register(t, never(t)), path)
	wants(t, err, path, "cannot be read again")
}
