package persistentvolumelabel_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/rbac"
)

// suite is what all tests share. They run one after another and remove their volumes, since these
// belong to the whole cluster.
var suite struct {
	cp *controlplane.ControlPlane
	// admin is the tests' own; the controller has identity, and user is its name in the audit log.
	admin    kubernetes.Interface
	identity *rest.Config
	user     string
}

const (
	commonRules = "../../deploy/base/rbac.yaml"
	ownRules    = "../../deploy/base/persistentvolumelabel.yaml"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // client-go logs failed watches, which some tests provoke
	os.Exit(controlplane.Main(m, prepare, compareRules))
}

func prepare(cp *controlplane.ControlPlane) error {
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		return err
	}
	rules, err := rbac.Load(commonRules, ownRules)
	if err != nil {
		return err
	}
	if err := rules.Apply(context.Background(), admin); err != nil {
		return err
	}
	suite.cp, suite.admin = cp, admin
	suite.user = controlplane.ServiceAccountUser("kube-system", "cloud-controller-manager")
	suite.identity, err = cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	return err
}

// compareRules compares the requests of the controllers to the API server with the
// rules: none may be missing in the two files together, and none superfluous in the controller's
// own.
func compareRules() error {
	own, err := rbac.Load(ownRules)
	if err != nil {
		return err
	}
	granted, err := own.Permissions(suite.user)
	if err != nil {
		return err
	}
	records, err := suite.cp.Audit().All(controlplane.ByUser(suite.user))
	if err != nil {
		return err
	}
	report := rbac.Compare(granted, records, suite.user)
	if selected() {
		report.Unused = nil
	}
	if !report.OK() {
		return fmt.Errorf("%s is not what the controller needs:\n%s", ownRules, report)
	}
	return nil
}

// selected tells that go test runs only some of the tests, which may not need all rules.
func selected() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	return false
}
