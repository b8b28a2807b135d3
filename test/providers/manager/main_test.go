// Package manager_test runs a whole Manager with the OpenStack provider on a real API server, under
// the RBAC rules of deploy/base, on the simulated OpenStack or a real one (see package project). A
// cluster changes while the Manager is killed or OpenStack fails.
package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/test/internal/replica"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the cluster. Tests are sequential, because Nodes belong to the whole cluster.
var shared suite.Suite

// binary is the example program. It is set by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "fxccm-manager-")
	if err != nil {
		return suite.Failed(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			code = suite.Failed(err)
		}
	}()
	binary = filepath.Join(dir, "fxccm")
	return suite.Run(m, &shared, suite.Options{
		Rules: []string{"../../../deploy/base/rbac.yaml"},
		Prepare: func(context.Context, *suite.Suite) error {
			if err := replica.Build("../../..", dir, "./example"); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "example"), binary)
		},
		Check: suite.NothingForbidden,
	})
}
