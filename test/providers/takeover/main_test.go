// Package takeover_test takes a cluster of openstack-cloud-controller-manager (OCCM) over, by hand
// and with "fxccm migrate", and hands it back: on a real API server, under the RBAC rules of
// deploy/base, on the simulated OpenStack or a real one (see package project).
//
// occm_program_test.go runs OCCM's own program (make occm). For the other tests occm_make_test.go
// creates its resources by plain requests, and occm_look_test.go compares as OCCM compares. Both
// follow its source, v1.36.
package takeover_test

import (
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// shared has a control plane for each test that runs, because Nodes belong to the whole cluster.
var shared replica.Suite

func TestMain(m *testing.M) {
	// Tests on the real OpenStack, which is busy with one, are sequential.
	controlPlanes := 3
	if project.OnLab() {
		controlPlanes = 1
	}
	shared.Main(m, controlPlanes)
}
