package replica

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/test/internal/suite"
)

// A Suite has what the tests of a package two folders below test share: control planes with the
// shipped RBAC rules, and the example program.
type Suite struct {
	*suite.Pool
	// Binary is the path of the program.
	Binary string
}

// Main builds the program, runs the tests, and ends the process, which fails if goroutines are
// left.
func (s *Suite) Main(m *testing.M, controlPlanes int) {
	s.Pool = suite.NewPool(controlPlanes, suite.Options{
		Rules: []string{"../../../deploy/base/rbac.yaml"}, Check: suite.NothingForbidden,
	})
	goleak.VerifyTestMain(tests{s, m},
		// klog flushes its log files with one goroutine for the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

type tests struct {
	suite *Suite
	m     *testing.M
}

func (t tests) Run() (code int) {
	dir, err := os.MkdirTemp("", "fxccm-program-")
	if err != nil {
		return suite.Failed(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			code = suite.Failed(err)
		}
	}()
	if err := Build("../../..", dir, "./example"); err != nil {
		return suite.Failed(err)
	}
	// Its name is its user agent.
	t.suite.Binary = filepath.Join(dir, "fxccm")
	if err := os.Rename(filepath.Join(dir, "example"), t.suite.Binary); err != nil {
		return suite.Failed(err)
	}
	return t.suite.Run(t.m)
}
