package persistentvolumelabel_test

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rbac"
)

// suite is shared by all tests. They run one after another and remove their volumes, because
// volumes belong to the whole cluster.
var suite struct {
	cp *controlplane.ControlPlane
	// admin is the client of the tests. The controller has identity, and user is its name in the
	// audit log.
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

// compareRules fails the run if the two files lack a rule that the controllers need, or if the
// controller's file has a rule that it does not need.
func compareRules() error {
	own, err := rbac.Load(ownRules)
	if err != nil {
		return err
	}
	return own.Verify(suite.cp.Audit(), suite.user, nil)
}
