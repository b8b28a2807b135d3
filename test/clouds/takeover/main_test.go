// Package takeover_test takes over a cluster that openstack-cloud-controller-manager (OCCM) has
// run, and gives it back. It runs the whole CCM on a real API server, on the simulated OpenStack or
// on a real one (see package project).
//
// OCCM itself is not here. What it makes, and leaves behind, is made by plain requests ([occm],
// occm_make_test.go), and what it would do with what it finds is told by its own comparisons
// (occm_look_test.go). Both go by its source, v1.36, files and functions of which are named there.
package takeover_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the cluster. Tests run one after another, and clean up what they made.
var shared suite.Suite

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fxccm-takeover-")
	if err != nil {
		os.Exit(suite.Failed(err))
	}
	binary = filepath.Join(dir, "fxccm")
	code := suite.Run(m, &shared,
		suite.Options{Rules: []string{"../../../example/deploy/rbac.yaml"}})
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
