package controlplane_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// shared is the control plane of the tests that neither stop it nor ask for one of its own kind.
// They keep apart by names.
var shared *controlplane.ControlPlane

func TestMain(m *testing.M) {
	if program := os.Getenv(abandonEnv); program != "" {
		abandon()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := controlplane.Main(m, func(cp *controlplane.ControlPlane) error {
		shared = cp
		return nil
	}, nil)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
