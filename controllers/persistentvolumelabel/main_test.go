package persistentvolumelabel_test

import (
	"context"
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
	os.Exit(controlplane.Tests{
		M: m, ControlPlane: &suite.cp, Before: prepare, After: compareRules,
	}.Run())
}

func prepare() (err error) {
	suite.user = controlplane.ServiceAccountUser("kube-system", "cloud-controller-manager")
	if suite.admin, err = kubernetes.NewForConfig(suite.cp.RESTConfig()); err != nil {
		return err
	}
	rules, err := rbac.Load(commonRules, ownRules)
	if err != nil {
		return err
	}
	if err := rules.Apply(context.Background(), suite.admin); err != nil {
		return err
	}
	suite.identity, err = suite.cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	return err
}

// compareRules fails the run if the controllers need a rule that is missing in the two files
// together, or do not need a rule of the controller's own.
func compareRules() error {
	own, err := rbac.Load(ownRules)
	if err != nil {
		return err
	}
	return own.Verify(suite.cp.Audit(), suite.user, nil)
}
