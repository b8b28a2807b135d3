package ccmtest_test

import (
	"os"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// cluster is shared by all tests of this package; each cleans up after itself.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.Tests{M: m, ControlPlane: &cluster}.Run())
}
