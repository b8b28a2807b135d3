package clusterapi_test

import (
	"os"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.Tests{M: m, ControlPlane: &cluster}.Run())
}
