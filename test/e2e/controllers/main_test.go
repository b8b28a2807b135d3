// Package controllers_test runs the cloud controller manager on a real API server, under an
// identity that has exactly the RBAC rules shipped in deploy/base, and looks at what reaches the
// API server and the cloud.
package controllers_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/rbac"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the control plane of all tests: one takes seconds to start. Each test has a virtual
// cluster of its own in it (suite.Confine). Tests that are about the lease or about metrics of the
// process do not run in parallel.
var shared suite.Suite

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, &shared,
		suite.Options{Rules: []string{"../../../deploy/base/rbac.yaml"}, Check: compareRules}))
}

// compareRules holds the shipped rules against the requests of the tests' CCMs: a
// rule that is missing and one that nothing needs both fail the suite, but for those of the
// OpenStack provider. Some of its tests alone do not need all rules, so a selection is not judged
// for these.
func compareRules(s *suite.Suite) error {
	granted, err := s.Rules.Permissions(s.User)
	if err != nil {
		return err
	}
	records, err := s.Audit().All(controlplane.ByUser(s.User))
	if err != nil {
		return err
	}
	report := rbac.Compare(granted, records, s.User)
	if selected() {
		report.Unused = nil
	}
	report.Unused = slices.DeleteFunc(report.Unused, ofOpenStack)
	if !report.OK() {
		return fmt.Errorf("deploy/base/rbac.yaml is not what the controllers need:\n%s", report)
	}
	return nil
}

// ofOpenStack tells whether only the OpenStack provider needs the permission, whose suite
// checks it.
func ofOpenStack(p rbac.Permission) bool {
	return slices.Contains([]string{"patch services", "get namespaces kube-system"}, p.String())
}

// selected tells that go test runs only some of the tests.
func selected() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	return false
}
