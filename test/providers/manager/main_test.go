// Package manager_test runs a whole Manager with the OpenStack provider on a real API server, under
// the RBAC rules of deploy/base, on the simulated OpenStack or a real one (see package project). A
// cluster changes while the Manager is killed or OpenStack fails.
package manager_test

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
