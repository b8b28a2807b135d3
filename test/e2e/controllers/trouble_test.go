package controllers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// bind binds a user to a ClusterRole until the test ends.
func bind(t *testing.T, name, role string, subject rbacv1.Subject) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
	bindings := shared.Client(t).RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

func TestTrouble_APIServerDownAtStart_IsReportedAndRecoveredFrom(t *testing.T) {
	t.Parallel()
	cp := controlplane.ForTest(t)
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ApplyRBAC(t, admin, "../../../deploy/base/rbac.yaml")
	identity, err := cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	cloud := newCloud(t, nil)
	r := start(t, params(t, cloud, elected, func(p *ccm.Params) { p.RESTConfig = identity }))
	ccmtest.Eventually(t, "the API server is missed",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.State == status.Degraded &&
				strings.Contains(s.Reason, "the API server is down or its address is wrong")
		}))
	if err := cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager))

	// The same happens while it leads.
	if err := cp.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the term is lost with the API server",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.State == status.Degraded &&
				strings.Contains(s.Reason, "the API server is down")
		}))
	if err := cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager))
}

// The missing rights are named. When they are granted, the Manager continues without a restart.
func TestTrouble_MissingRBAC_IsReportedAndRecoveredFrom(t *testing.T) {
	const user = "underprivileged"
	identity, err := shared.ControlPlane.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	cloud := newCloud(t, nil)
	r := start(t,
		params(t, cloud, elected,
			func(p *ccm.Params) { p.RESTConfig = suite.Confine(t, identity) }))
	ccmtest.Eventually(t, "the missing rule for the lease is reported",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.State == status.Degraded && strings.Contains(s.Reason, "lacks RBAC rules") &&
				strings.Contains(s.Reason, `"underprivileged" cannot get resource "leases"`)
		}))
	grant(t, "test-leases",
		rbacv1.PolicyRule{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "create", "update"},
		}, user)
	ccmtest.Eventually(t, "the missing rule for the informers is reported",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.State == status.Degraded && strings.Contains(s.Reason, "lacks RBAC rules") &&
				strings.Contains(s.Reason, "informer of nodes has not synced")
		}))
	bind(t, "test-underprivileged", "cluster-admin",
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: user})
	if s := ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager)); s.Term != 1 {
		t.Errorf("term %d, want the first term, which waits for the rules", s.Term)
	}
}

// grant gives a user one rule until the test ends.
func grant(t *testing.T, name string, rule rbacv1.PolicyRule, user string) {
	t.Helper()
	grantTo(t, name, rule, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: user})
}

func grantTo(t *testing.T, name string, rule rbacv1.PolicyRule, subject rbacv1.Subject) {
	t.Helper()
	roles := shared.Client(t).RbacV1().ClusterRoles()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{rule},
	}
	if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roles.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	bind(t, name, name, subject)
}

func TestTrouble_FailedLogin_IsReportedAndRecoveredFrom(t *testing.T) {
	cloud := newCloud(t, []string{"login-1"})
	var mayLogIn atomic.Bool
	real := provider(cloud)
	r := start(t, params(t, cloud, elected, func(p *ccm.Params) {
		p.Providers = []ccm.Provider{{
			Name: "fake",
			New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
				if !mayLogIn.Load() {
					return nil, errors.New("log in to the identity service: 401 Unauthorized")
				}
				return real.New(ctx, env)
			},
		}}
	}))
	current := ccmtest.Eventually(t, "the failed login is reported",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.State == status.Degraded &&
				strings.Contains(s.Reason,
					`cloud provider "fake": log in to the identity service: 401 Unauthorized`)
		}))
	if current.RetryAt.IsZero() {
		t.Error("the status lacks the time of the retry")
	}
	// A replica that cannot reach the cloud must not keep the lease from one that can.
	waittest.Until(t, "the lease is given back", func() error {
		if h := holder(t); h != "" {
			return errors.New("held by " + h)
		}
		return nil
	})
	mayLogIn.Store(true)
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("login-1"))
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), "login-1"))
}
