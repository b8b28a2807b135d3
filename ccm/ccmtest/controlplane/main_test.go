package controlplane_test

import (
	"context"
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
	ctx := context.Background()
	var err error
	if shared, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for _, check := range []func() error{
		func() error { return shared.Stop(ctx) },
		func() error { return goleak.Find() },
	} {
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
