package replica

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/test/internal/suite"
)

// RunSuite builds the example program as *binary and runs the tests of a package two folders below
// test, on a control plane with the shipped RBAC rules. The code is for os.Exit.
func RunSuite(m *testing.M, s *suite.Suite, binary *string) (code int) {
	dir, err := os.MkdirTemp("", "fxccm-program-")
	if err != nil {
		return suite.Failed(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			code = suite.Failed(err)
		}
	}()
	*binary = filepath.Join(dir, "fxccm")
	return suite.Run(m, s, suite.Options{
		Rules: []string{"../../../deploy/base/rbac.yaml"},
		Prepare: func(context.Context, *suite.Suite) error {
			if err := Build("../../..", dir, "./example"); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "example"), *binary)
		},
		Check: suite.NothingForbidden,
	})
}
