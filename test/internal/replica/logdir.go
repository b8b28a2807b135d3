//go:build linux

package replica

import (
	"os"
	"testing"
)

// LogDir is a folder for the logs of processes that is removed when the test succeeds.
func LogDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fxccm-drills-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of the processes are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
