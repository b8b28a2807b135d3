// Package takeover_test takes a cluster of openstack-cloud-controller-manager (OCCM) over, by hand
// and with "fxccm migrate", and hands it back: on a real API server, under the RBAC rules of
// deploy/base, on the simulated OpenStack or a real one (see package project).
//
// OCCM itself does not run. occm_make_test.go creates its resources by plain requests, and
// occm_look_test.go compares as OCCM compares. Both follow its source, v1.36.
package takeover_test

import (
	"os"
	"testing"

	"github.com/fxccm/fxccm/test/internal/replica"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the cluster. Tests are sequential, because Nodes belong to the whole cluster.
var shared suite.Suite

// binary is the example program. It is set by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(replica.RunSuite(m, &shared, &binary)) }
