package ccmtest

import (
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/internal/rbac"
	"github.com/fxccm/fxccm/internal/waittest"
)

// ApplyRBAC applies a manifest file with the RBAC rules that a binary is shipped with, to test it
// with exactly these. The kinds are ServiceAccount, ClusterRole, ClusterRoleBinding, Role and
// RoleBinding; another kind fails the test. The objects remain after the test.
//
//	ccmtest.ApplyRBAC(t, client, "../deploy/rbac.yaml")
//	identity, err := controlPlane.ServiceAccountConfig("kube-system", "cloud-controller-manager")
//	…
//	app := ccmtest.StartApp(t, controlPlane, cloud, ccmtest.WithIdentity(identity))
func ApplyRBAC(t testing.TB, client kubernetes.Interface, path string) {
	t.Helper()
	manifests, err := rbac.Load(path)
	if err != nil {
		t.Fatal(err)
		return
	}
	ctx, cancel := waittest.Limited(t)
	defer cancel()
	if err := manifests.Apply(ctx, client); err != nil {
		t.Fatalf("apply %s: %v", path, err)
	}
}
