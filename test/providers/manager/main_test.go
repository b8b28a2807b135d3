// Package manager_test runs a whole Manager with the OpenStack provider on a real API server, under
// the RBAC rules of deploy/base, on the simulated OpenStack or a real one (see package project).
// A cluster changes while the Manager is killed or OpenStack fails, and a cluster of
// openstack-cloud-controller-manager (OCCM) is taken over and handed back.
//
// OCCM itself does not run. occm_make_test.go creates its resources by plain requests, and
// occm_look_test.go compares as OCCM compares. Both follow its source, v1.36.
package manager_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the cluster. Tests are sequential, because Nodes belong to the whole cluster.
var shared suite.Suite

// program is the example binary. It is set by TestMain.
var program string

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
	program = filepath.Join(dir, "fxccm")
	return suite.Run(m, &shared, suite.Options{
		Rules:   []string{"../../../deploy/base/rbac.yaml"},
		Prepare: func(ctx context.Context, _ *suite.Suite) error { return build(ctx) },
		Check:   nothingForbidden,
	})
}

// build makes the program as the Makefile makes it, so that it comes out of the same build cache,
// and is never an old one.
func build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./example")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the example: %w\n%s", err, out)
	}
	return nil
}

// nothingForbidden fails the suite if the shipped rules have not allowed something that the CCM has
// asked for.
func nothingForbidden(s *suite.Suite) error {
	refused, err := s.Audit().All(controlplane.ByUser(s.User),
		func(r controlplane.AuditRecord) bool { return r.Decision == controlplane.DecisionForbid })
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("%d requests of the CCM were forbidden, the first: %s", len(refused),
			refused[0])
	}
	return nil
}
