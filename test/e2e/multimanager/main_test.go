// Package multimanager_test runs many Managers in one process, each with its own API endpoint.
// Package endpoint shows each Manager its own part of one API server.
package multimanager_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/test/internal/suite"
)

// hosted is the group of the endpoints' users, and the name of its rules beside the shipped ones.
const hosted = "hosted-control-planes"

// shared is the control plane of all tests. Each test has its own parts.
var shared suite.Suite

func TestMain(m *testing.M) {
	suite.VerifyMain(func() int {
		return suite.Run(m, &shared, suite.Options{
			Rules:   []string{"../../../deploy/base/rbac.yaml"},
			Prepare: admit,
		})
	})
}

// admit gives the endpoints' users the shipped rules, and the lease in the namespace of their part.
// The endpoints keep each user within its part.
func admit(ctx context.Context, s *suite.Suite) error {
	roles, bindings := s.Admin.RbacV1().ClusterRoles(), s.Admin.RbacV1().ClusterRoleBindings()
	lease := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: hosted},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "update", "watch"},
		}},
	}
	if _, err := roles.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("allow the leases: %w", err)
	}
	for _, role := range []string{hosted, "cloud-controller-manager"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: hosted + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{
				APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind,
				Name: hosted,
			}},
		}
		if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind %s: %w", role, err)
		}
	}
	return nil
}
