package controlplane_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// shared is the control plane of the tests that neither stop it nor need special options. Each test
// uses its own object names.
var shared *controlplane.ControlPlane

func TestMain(m *testing.M) {
	if program := os.Getenv(abandonEnv); program != "" {
		abandon()
		return
	}
	goleak.VerifyTestMain(controlplane.Tests{M: m, ControlPlane: &shared})
}
