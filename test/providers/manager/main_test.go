// Package manager_test runs a whole Manager with the OpenStack provider on a real API server, under
// the RBAC rules of deploy/base, on the simulated OpenStack or a real one (see package project). A
// cluster changes while the Manager is killed or OpenStack fails.
package manager_test

import (
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// shared has a control plane for each test that runs, because Nodes belong to the whole cluster.
var shared replica.Suite

func TestMain(m *testing.M) {
	// Tests on the real OpenStack, which is busy with one, are sequential.
	controlPlanes := 2
	if project.OnLab() {
		controlPlanes = 1
	}
	shared.Main(m, controlPlanes)
}
