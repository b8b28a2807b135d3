package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// failedTestTail is how many lines of each log a failed test shows.
const failedTestTail = 30

// ForTest starts a control plane for one test and stops it after the test and its subtests. If the
// start fails, the test fails. If the test fails, the logs are kept, and the test's output shows
// their folder and their last lines.
func ForTest(t testing.TB) *ControlPlane {
	t.Helper()
	cp, err := Start(t.Context(), Options{LogDir: logDirFor(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, name := range []string{"etcd", "kube-apiserver"} {
				t.Logf("the end of %s:\n%s", cp.logFile(name),
					logTail(cp.logFile(name), failedTestTail))
			}
		}
	})
	return cp
}

// Tests are the tests of a package, which share one control plane. TestMain runs them, for example
// with os.Exit(controlplane.Tests{M: m, ControlPlane: &cluster}.Run()). They can replace m in
// goleak.VerifyTestMain.
type Tests struct {
	M *testing.M
	// ControlPlane is set before the tests run.
	ControlPlane **ControlPlane
	// Before is called before the tests, and After when all have passed. Each may be nil; an error
	// fails the run.
	Before, After func() error
}

// Run starts the control plane, runs the tests, and stops it. The code is for os.Exit.
func (t Tests) Run() (code int) {
	ctx := context.Background()
	cp, err := Start(ctx, Options{})
	if err == nil {
		*t.ControlPlane = cp
		if t.Before != nil {
			err = t.Before()
		}
		if err == nil {
			code = t.M.Run()
			if code == 0 && t.After != nil {
				err = t.After()
			}
		}
		err = errors.Join(err, cp.Stop(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// logDirFor creates a folder that is removed if the test succeeds. t.TempDir is always removed.
func logDirFor(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fxccm-logs-")
	if err != nil {
		t.Fatalf("make a folder for the logs of the control plane: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of the control plane are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the logs of the control plane: %v", err)
		}
	})
	return dir
}
