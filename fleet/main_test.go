package fleet_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// cluster is shared by all tests. Each has a namespace of its own, so most are parallel.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(controlplane.Tests{M: m, ControlPlane: &cluster})
}
