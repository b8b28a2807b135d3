// Package multimanager_test runs fifty Managers in one process, each with an API endpoint of its
// own. Package endpoint shows each Manager its own part of one of two API servers.
package multimanager_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/rbac"
	"github.com/fxccm/fxccm/test/internal/suite"
)

const (
	// planes is how many API servers there are.
	planes = 2
	// hosted is the group that the endpoints' users are in, and the name of what it may do beside
	// the shipped rules.
	hosted = "hosted-control-planes"
)

// A plane is a real control plane, with its administrator.
type plane struct {
	*controlplane.ControlPlane
	admin kubernetes.Interface
}

// shared holds the control planes of all tests. Each test has parts of its own.
var shared [planes]plane

func TestMain(m *testing.M) { os.Exit(suite.Quietly(func() int { return runSuite(m) })) }

func runSuite(m *testing.M) (code int) {
	defer func() {
		for _, p := range shared {
			if p.ControlPlane == nil {
				continue
			}
			if err := p.Stop(context.Background()); err != nil {
				code = suite.Failed(err)
			}
		}
	}()
	if err := startPlanes(); err != nil {
		return suite.Failed(err)
	}
	return m.Run()
}

// startPlanes starts the control planes at once.
func startPlanes() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var starting sync.WaitGroup
	errs := make(chan error, planes)
	for i := range planes {
		starting.Go(func() {
			if err := shared[i].start(ctx); err != nil {
				errs <- err
			}
		})
	}
	starting.Wait()
	close(errs)
	return <-errs // nil if there is none
}

func (p *plane) start(ctx context.Context) (err error) {
	if p.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return err
	}
	if p.admin, err = kubernetes.NewForConfig(p.RESTConfig()); err != nil {
		return err
	}
	shipped, err := rbac.Load("../../../example/deploy/rbac.yaml")
	if err != nil {
		return err
	}
	if err := shipped.Apply(ctx, p.admin); err != nil {
		return err
	}
	return p.admit(ctx)
}

// admit gives the endpoints' users the shipped rules, and the lease in the namespace of their part:
// a cluster of one's own would have it in kube-system. That they keep to their part is the
// endpoints' business.
func (p *plane) admit(ctx context.Context) error {
	roles, bindings := p.admin.RbacV1().ClusterRoles(), p.admin.RbacV1().ClusterRoleBindings()
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
