package ccmtest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// In a real test, testLoss is TestLoss and takes a *testing.T.
func testLoss(t testing.TB) {
	// cluster is a control plane that the tests of a package share
	app := ccmtest.StartApp(t, cluster, fake.New())
	app.WaitReady()

	app.Elector.Lose(errors.New("the lease was not renewed"))
	release := app.Elector.WaitReleased(t)
	fmt.Println("drained:", release.Drained)
	fmt.Println(release.Err)
	fmt.Println(ccmtest.Eventually(t, "the Manager is a standby",
		ccmtest.State(app.Manager, status.Standby)).State)

	app.Elector.Lead()
	fmt.Println("leads again, in term", app.WaitReady().Term)
}

// A test takes leadership away from a host and gives it back.
func ExampleManualElector() {
	asTest(testLoss)
	// Output:
	// drained: true
	// leadership lost: the lease was not renewed
	// standby
	// leads again, in term 2
}
