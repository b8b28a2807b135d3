// Package integration_test runs the cloud controller manager on a real API server, under an identity that has exactly the RBAC rules
// shipped in example/deploy, and looks at what reaches the API server and the cloud.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// suite is what all tests share: a control plane takes seconds to start. Tests run one after another and clean up what they made, since
// Nodes belong to the whole cluster.
var suite struct {
	cp *controlplane.ControlPlane
	// admin may do everything. It is the tests' own; the CCM never uses it.
	admin kubernetes.Interface
	// identity is the CCM's, user its name in the audit log.
	identity *rest.Config
	user     string
}

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cp.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := prepare(ctx, cp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare(_ context.Context, cp *controlplane.ControlPlane) (err error) {
	suite.cp = cp
	if suite.admin, err = kubernetes.NewForConfig(cp.RESTConfig()); err != nil {
		return err
	}
	suite.identity = cp.RESTConfig()
	suite.user = "system:admin"
	return nil
}
