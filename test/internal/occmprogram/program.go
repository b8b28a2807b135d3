//go:build linux

// Package occmprogram runs openstack-cloud-controller-manager (OCCM) itself, for tests of what it
// leaves and takes back. "make occm" builds it.
package occmprogram

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/test/internal/replica"
	"github.com/fxccm/fxccm/test/internal/suite"
)

const (
	// Name is that of the program and of its ServiceAccount in kube-system.
	Name = "openstack-cloud-controller-manager"
	// LeaseName is that of its lease, and of the role of its manifests.
	LeaseName = "cloud-controller-manager"

	roleName = "system:cloud-controller-manager"
)

// dir is the folder of the program and of its RBAC rules, for packages three folders below the
// root.
const dir = "../../../bin/occm"

// Grant gives OCCM the role of its manifests until the end of the test.
func Grant(t testing.TB, cluster *suite.Suite) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "roles.yaml"))
	if err != nil {
		t.Fatalf("OCCM is not there (make occm): %v", err)
	}
	var roles rbacv1.ClusterRoleList
	if err := yaml.Unmarshal(text, &roles); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(roles.Items,
		func(r rbacv1.ClusterRole) bool { return r.Name == roleName })
	if i < 0 {
		t.Fatalf("roles.yaml has %d roles without OCCM's", len(roles.Items))
	}
	role := roles.Items[i]
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name,
		},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: Name,
		}},
	}
	rbac := cluster.Admin.RbacV1()
	_, err = rbac.ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ccmtest.WaitLimit)
		defer cancel()
		leases := cluster.Admin.CoordinationV1().Leases(metav1.NamespaceSystem)
		err := leases.Delete(ctx, LeaseName, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		if err := errors.Join(err,
			rbac.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{}),
			rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}),
		); err != nil {
			t.Error(err)
		}
	})
}

// Start starts OCCM, which [Grant] has permitted. It ends with the test. The log has its events.
func Start(
	t *testing.T, cluster *suite.Suite, lease replica.LeaseTimes, cloudConf string, flags ...string,
) *replica.Process {
	t.Helper()
	folder := t.TempDir()
	identity, err := cluster.ServiceAccountConfig(metav1.NamespaceSystem, Name)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err == nil {
		err = controlplane.WriteKubeconfig(kubeconfig, identity)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--v=4", "--cloud-config=" + cloudConf, "--cloud-provider=openstack",
		"--use-service-account-credentials=false",
		"--controllers=cloud-node,cloud-node-lifecycle,route,service", "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", freeport.ForTest(t)),
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
	return replica.StartProcess(t, folder, Name, nil, filepath.Join(dir, Name),
		slices.Concat(args, lease.Flags(), flags)...)
}

// Ensured returns the index of the first of the log's lines that has ensured the load balancer of
// a Service; -1 for none.
func Ensured(lines []string, namespace, name string) int {
	return slices.IndexFunc(lines, func(line string) bool {
		return strings.Contains(line, `reason="EnsuredLoadBalancer"`) &&
			strings.Contains(line, `object="`+namespace+"/"+name+`"`)
	})
}
