// Package controllers_test runs the cloud controller manager on a real API server, under an
// identity that has exactly the RBAC rules shipped in deploy/base, and checks the requests that
// reach the API server and the cloud.
package controllers_test

import (
	"os"
	"testing"

	"github.com/fxccm/fxccm/internal/rbac"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the control plane of all tests, because a start takes seconds. Each test has its own
// virtual cluster in it (suite.Confine). Tests of the lease or of metrics of the process do not run
// in parallel.
var shared suite.Suite

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, &shared,
		suite.Options{Rules: []string{"../../../deploy/base/rbac.yaml"}, Check: compareRules}))
}

// compareRules fails the suite for a missing shipped rule, and for a shipped rule that no CCM
// needs, except for those of the OpenStack provider and of node-ipam-controller.
func compareRules(s *suite.Suite) error {
	return s.Rules.Verify(s.Audit(), s.User, func(p rbac.Permission) bool {
		return !suite.OfOpenStack(p) && p.String() != "get nodes"
	})
}
