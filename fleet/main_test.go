package fleet_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// cluster is shared by all tests. Each has a namespace of its own, so most are parallel.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) { goleak.VerifyTestMain(withCluster{m}) }

// withCluster runs the tests on one control plane.
type withCluster struct{ tests *testing.M }

func (w withCluster) Run() int {
	return controlplane.Main(w.tests, func(cp *controlplane.ControlPlane) error {
		cluster = cp
		return nil
	}, nil)
}
