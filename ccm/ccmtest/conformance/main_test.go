package conformance_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/hosting/process"
)

// planes are the API servers of the tests. Each test takes one for itself; nil is one that has not
// been started. The processes of the checks take none.
var planes = make(chan *controlplane.ControlPlane, 4)

func TestMain(m *testing.M) {
	var hosted []ccm.Provider
	for _, h := range hostiles() {
		hosted = append(hosted, h.provider())
	}
	process.Main(hosted...)
	if os.Getenv("FXCCM_CONFORMANCE") != "" {
		// This process runs one check, which counts goroutines itself.
		os.Exit(withPlanes{m}.Run())
	}
	goleak.VerifyTestMain(withPlanes{m})
}

// withPlanes runs the tests, and stops the API servers that they have started.
type withPlanes struct{ tests *testing.M }

func (w withPlanes) Run() int {
	for range cap(planes) {
		planes <- nil
	}
	code := w.tests.Run()
	for range cap(planes) {
		plane := <-planes
		if plane == nil {
			continue
		}
		if err := plane.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// cluster is an API server that no other test uses at the same time.
func cluster(t testing.TB) ccmtest.Cluster {
	t.Helper()
	plane := <-planes
	t.Cleanup(func() { planes <- plane })
	if plane == nil {
		var err error
		plane, err = controlplane.Start(context.Background(),
			controlplane.Options{DisableAudit: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	return plane
}
