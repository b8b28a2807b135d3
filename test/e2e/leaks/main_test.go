package leaks

import (
	"os"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the control plane of all tests. They run sequentially, because goroutines, connections
// and memory belong to the process.
var shared suite.Suite

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, &shared, suite.Options{
		Rules:        []string{"../../../deploy/base/rbac.yaml"},
		ControlPlane: controlplane.Options{DisableAudit: true},
	}))
}
