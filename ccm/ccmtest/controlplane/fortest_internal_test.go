package controlplane

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// recordingTB is a test whose failure and cleanup another test controls.
type recordingTB struct {
	testing.TB
	failed   bool
	cleanups []func()
	output   strings.Builder
}

func (r *recordingTB) Helper()          {}
func (r *recordingTB) Failed() bool     { return r.failed }
func (r *recordingTB) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recordingTB) Logf(format string, args ...any) {
	fmt.Fprintf(&r.output, format+"\n", args...)
}

func TestLogDirFor_OnlyFailedTests_KeepTheirLogs(t *testing.T) {
	for _, failed := range []bool{false, true} {
		t.Setenv("TMPDIR", t.TempDir())
		tb := &recordingTB{TB: t, failed: failed}
		dir := logDirFor(tb)
		for _, cleanup := range tb.cleanups {
			cleanup()
		}
		_, err := os.Stat(dir)
		if kept := err == nil; kept != failed {
			t.Errorf("failed: %t, logs kept: %t", failed, kept)
		}
		if named := strings.Contains(tb.output.String(), "are kept in "+dir); named != failed {
			t.Errorf("failed: %t, output: %q", failed, tb.output.String())
		}
	}
}
