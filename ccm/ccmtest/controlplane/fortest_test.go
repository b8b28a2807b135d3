package controlplane_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// recordingTB is a test whose outcome and cleanup are the test's to choose.
type recordingTB struct {
	testing.TB
	failed   bool
	cleanups []func()
	output   strings.Builder
}

func (r *recordingTB) Helper()          {}
func (r *recordingTB) Failed() bool     { return r.failed }
func (r *recordingTB) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recordingTB) Error(args ...any) {
	r.failed = true
	fmt.Fprintln(&r.output, args...)
}

func (r *recordingTB) Logf(format string, args ...any) {
	fmt.Fprintf(&r.output, format+"\n", args...)
}

func (r *recordingTB) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestForTest_KeepsTheLogsOfAFailedTestOnly(t *testing.T) {
	for _, failed := range []bool{false, true} {
		t.Run(fmt.Sprintf("failed=%t", failed), func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			tb := &recordingTB{TB: t}
			cp := controlplane.ForTest(tb)
			pid := cp.APIServerPID()
			tb.failed = failed
			tb.end()

			if alive(pid) {
				t.Errorf("kube-apiserver %d lives after the test", pid)
			}
			if !failed {
				expectEmpty(t, tmp)
				if tb.output.Len() > 0 {
					t.Errorf("a test that succeeded printed %q", tb.output.String())
				}
				return
			}
			for _, name := range []string{"kube-apiserver.log", "etcd.log", "audit.log"} {
				if info, err := os.Stat(filepath.Join(cp.LogDir(), name)); err != nil ||
					info.Size() == 0 {
					t.Errorf("%s of a failed test: %v", name, err)
				}
			}
			if !strings.Contains(tb.output.String(), "are kept in "+cp.LogDir()) {
				t.Errorf("the output does not say where the logs are: %s", tb.output.String())
			}
		})
	}
}
