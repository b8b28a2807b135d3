// Package openstack_test runs the whole cloud controller manager with the OpenStack provider: on a
// real API server, under an identity that has exactly the RBAC rules shipped in deploy/base, and
// against a simulated OpenStack. It checks the requests to both sides.
package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the control plane of all tests. Each test has its own virtual cluster in it
// (suite.Confine).
var shared struct {
	suite.Suite
	// klog holds the log that goes to klog, such as the route controller's.
	klog journal
	// before are the goroutines before the first test.
	before goleak.Option
}

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, &shared.Suite, suite.Options{
		Rules: []string{"../../../deploy/base/rbac.yaml"},
		Prepare: func(context.Context, *suite.Suite) error {
			klog.SetOutput(&shared.klog)
			shared.before = goleak.IgnoreCurrent()
			return nil
		},
		Check: func(s *suite.Suite) error { return errors.Join(noLeaks(), compareRules(s)) },
	}))
}

// noLeaks fails the suite if the tests leak goroutines. The tests run in parallel, so a single test
// cannot check it.
func noLeaks() error {
	var report leakReport
	ccmtest.VerifyNoLeaks(&report, shared.before)
	return report.err
}

// leakReport replaces a test.
type leakReport struct {
	testing.TB
	err error
}

func (*leakReport) Helper() {}

func (r *leakReport) Errorf(format string, args ...any) { r.err = fmt.Errorf(format, args...) }

// compareRules fails the suite if OpenStack's tests need a missing rule, or do not need a rule that
// is only for OpenStack.
func compareRules(s *suite.Suite) error {
	return s.Rules.Verify(s.Audit(), s.User, suite.OfOpenStack)
}
