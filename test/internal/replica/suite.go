package replica

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/test/internal/suite"
)

// A Suite is shared by the tests of a package two folders below test: control planes with the
// shipped RBAC rules, and the example program.
type Suite struct {
	*suite.Pool
	// Binary is the path of the program.
	Binary string
}

// Main builds the program, runs the tests, and ends the process. The run fails if goroutines are
// left.
func (s *Suite) Main(m *testing.M, controlPlanes int) {
	s.Pool = suite.NewPool(controlPlanes, suite.Options{
		Rules: []string{"../../../deploy/base/rbac.yaml"}, Check: suite.NothingForbidden,
	})
	suite.VerifyMain(func() int { return s.run(m) })
}

func (s *Suite) run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "fxccm-program-")
	if err != nil {
		return suite.Failed(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			code = suite.Failed(err)
		}
	}()
	if err := Build("../../..", dir, "./cmd/fxccm"); err != nil {
		return suite.Failed(err)
	}
	s.Binary = filepath.Join(dir, "fxccm")
	return s.Run(m)
}
