// Package integration_test runs the cloud controller manager on a real API server, under an identity that has exactly the RBAC rules
// shipped in example/deploy, and looks at what reaches the API server and the cloud.
package integration_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/rbac"
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
	log, err := os.CreateTemp("", "fxccm-integration-*.log")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Upstream's controllers say thousands of lines, in which what a test has to say would drown.
	klog.LogToStderr(false)
	klog.SetOutput(log)
	defer func() {
		klog.Flush()
		if code == 0 {
			_ = os.Remove(log.Name())
			return
		}
		fmt.Fprintln(os.Stderr, "what the controllers logged:", log.Name())
	}()
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
	shipped, err := prepare(ctx, cp)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code := m.Run(); code != 0 {
		return code
	}
	return compareRules(shipped)
}

func prepare(ctx context.Context, cp *controlplane.ControlPlane) (*rbac.Manifests, error) {
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		return nil, err
	}
	shipped, err := rbac.Load("../../example/deploy/rbac.yaml")
	if err != nil {
		return nil, err
	}
	if err := shipped.Apply(ctx, admin); err != nil {
		return nil, err
	}
	suite.cp, suite.admin = cp, admin
	suite.user = controlplane.ServiceAccountUser("kube-system", "cloud-controller-manager")
	suite.identity, err = cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	return shipped, err
}

// compareRules holds the shipped rules against what the tests' CCMs have asked of the API server: a rule that is missing and one that
// nothing needs both fail the suite. Some of its tests alone do not need all rules, so a selection is not judged for these.
func compareRules(shipped *rbac.Manifests) int {
	granted, err := shipped.Permissions(suite.user)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	records, err := suite.cp.Audit().All(controlplane.ByUser(suite.user))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	report := rbac.Compare(granted, records, suite.user)
	if selected() {
		report.Unused = nil
	}
	if !report.OK() {
		fmt.Fprintf(os.Stderr, "example/deploy/rbac.yaml is not what the controllers need:\n%s", report)
		return 1
	}
	return 0
}

// selected tells that go test runs only some of the tests.
func selected() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	return false
}
