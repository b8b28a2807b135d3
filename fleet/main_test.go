package fleet_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/provider/openstack"
)

// cluster is shared by all tests. Each has a namespace of its own, so most are parallel.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	process.Main(openstack.Provider()) // the child is this test binary
	goleak.VerifyTestMain(controlplane.Tests{M: m, ControlPlane: &cluster})
}
