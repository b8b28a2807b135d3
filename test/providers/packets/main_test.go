//go:build linux

// Package packets_test sends packets through the load balancers that a whole Manager creates with
// the OpenStack provider, on a real API server and a lab with packets (make openstack-lab
// RELEASE=2025.1). Without such a lab its tests are skipped.
//
// A node is a server of Nova whose port a network namespace has, and a process in the namespace
// answers at the node ports, or forwards to pods.
package packets_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/fxccm/fxccm/test/internal/suite"
)

// planes has a control plane for each test that runs: Nodes belong to the whole cluster. A test
// waits for OpenStack most of the time.
var planes = suite.NewPool(4, suite.Options{
	Rules: []string{"../../../deploy/base/rbac.yaml"}, Check: suite.NothingForbidden,
})

func TestMain(m *testing.M) {
	if name := os.Getenv(machineVariable); name != "" {
		if err := serveMachine(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	suite.VerifyMain(func() int { return planes.Run(m) })
}
