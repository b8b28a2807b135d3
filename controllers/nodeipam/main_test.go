package nodeipam_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rbac"
)

// suite is shared by all tests. They run one after another, because the ranges belong to the whole
// cluster. The controller has the identity, and only the RBAC rules of every Manager.
var suite struct {
	cp       *controlplane.ControlPlane
	admin    kubernetes.Interface
	identity *rest.Config
	user     string
}

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{})
	goleak.VerifyTestMain(controlplane.Tests{M: m, ControlPlane: &suite.cp, Before: prepare})
}

func prepare() (err error) {
	suite.user = controlplane.ServiceAccountUser("kube-system", "cloud-controller-manager")
	if suite.admin, err = kubernetes.NewForConfig(suite.cp.RESTConfig()); err != nil {
		return err
	}
	rules, err := rbac.Load("../../deploy/base/rbac.yaml")
	if err != nil {
		return err
	}
	if err := rules.Apply(context.Background(), suite.admin); err != nil {
		return err
	}
	suite.identity, err = suite.cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	return err
}
