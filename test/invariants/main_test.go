//go:build linux

package invariants_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"
)

// programs are the paths of what the tests run as processes. It is set by TestMain.
var programs struct{ ccm, cloud, stubborn string }

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) (code int) {
	flag.Parse()
	// The tests wait for leases to expire, most of the time; how many of them run at once is up to the lanes.
	if err := flag.Set("test.parallel", "64"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	klog.LogToStderr(false)
	klog.SetOutput(discard{}) // the test's own clients complain of an API server that a test has stopped
	dir, err := os.MkdirTemp("", "fxccm-invariants-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes the programs as the Makefile makes the example, so that they come out of the same build cache.
func build(dir string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+string(filepath.Separator),
		"./example", "./test/invariants/fakecloud", "./test/invariants/stubborn")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs that the tests run (%w); \"make test\" says what it takes:\n%s", err, out)
	}
	programs.ccm = filepath.Join(dir, "example")
	programs.cloud = filepath.Join(dir, "fakecloud")
	programs.stubborn = filepath.Join(dir, "stubborn")
	return nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
