package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// abandonEnv turns this test binary into a program that starts a control plane, prints its
// processes, and never stops it.
const abandonEnv = "CONTROLPLANE_TEST_ABANDON"

func abandon() {
	cp, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cp.APIServerPID(), cp.EtcdPID())
	forever := make(chan os.Signal, 1)
	signal.Notify(forever) // a deadlock would be reported, and end the program
	for range forever {
	}
}
