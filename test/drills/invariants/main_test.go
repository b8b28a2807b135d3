//go:build linux

package invariants_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/test/internal/replica"
)

// program is the path of the example binary. It is set by TestMain.
var program string

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) (code int) {
	flag.Parse()
	// The tests mostly wait for leases to expire; the lanes limit how many of them run in parallel.
	if err := flag.Set("test.parallel", "64"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	klog.LogToStderr(false)
	// The test's own clients log errors about a stopped API server.
	klog.SetOutput(discard{})
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

func build(dir string) error {
	if err := replica.Build(filepath.Join("..", "..", ".."), dir, "./example"); err != nil {
		return err
	}
	program = filepath.Join(dir, "example")
	return nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
