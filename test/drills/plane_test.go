//go:build linux

package drills_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rbac"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	// drilled is the group of the users of all cells, and the name of its rules beside the shipped
	// ones.
	drilled = "fxccm:drilled"

	// shipped is the name of the example's shipped ClusterRole.
	shipped = "cloud-controller-manager"
)

// A plane is a real control plane that cells share.
type plane struct {
	mu sync.Mutex
	*controlplane.ControlPlane
	admin kubernetes.Interface
	err   error
}

func newPlane() *plane { return &plane{} }

// started starts the control plane at the first call.
func (p *plane) started(t testing.TB) *plane {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ControlPlane == nil && p.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		p.err = p.start(ctx)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p
}

func (p *plane) start(ctx context.Context) (err error) {
	if p.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return err
	}
	if p.admin, err = kubernetes.NewForConfig(p.RESTConfig()); err != nil {
		return err
	}
	manifests, err := rbac.Load("../../deploy/base/rbac.yaml")
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, p.admin); err != nil {
		return err
	}
	return p.admit(ctx)
}

// admit gives the cells' users, and the ServiceAccounts of their controllers, the shipped rules,
// and the rules that a real cluster has in kube-system. The endpoints keep each user within its
// part.
func (p *plane) admit(ctx context.Context) error {
	rights := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: drilled},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts", "serviceaccounts/token"}, Verbs: []string{"create"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
		},
	}
	if _, err := p.admin.RbacV1().ClusterRoles().Create(ctx, rights,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the rules of the cells: %w", err)
	}
	for _, group := range []string{drilled, "system:serviceaccounts:" + metav1.NamespaceSystem} {
		for _, role := range []string{drilled, shipped} {
			binding := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "drills-"},
				RoleRef: rbacv1.RoleRef{
					APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
					Name: role,
				},
				Subjects: []rbacv1.Subject{{
					APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind,
					Name: group,
				}},
			}
			if _, err := p.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding,
				metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("bind %s to %s: %w", role, group, err)
			}
		}
	}
	return nil
}

// freeze freezes the kube-apiserver, and returns when it is frozen.
func (p *plane) freeze() error {
	pid := p.APIServerPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze kube-apiserver: %w", err)
	}
	return within(patience, func() error { return replica.StandsStill(pid) })
}

func (p *plane) thaw() error { return syscall.Kill(p.APIServerPID(), syscall.SIGCONT) }

// patience is how long a drill waits for a state: one that fails says within a minute what was
// missing.
const patience = time.Minute

// await is [waittest.Until] with the patience of a drill.
func await[C waittest.Condition](t testing.TB, what string, condition C) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := waittest.Poll(ctx, condition); err != nil {
		t.Fatalf("timed out waiting until %s; last seen: %v", what, err)
	}
}

// within polls at most for limit, for a drill that judges the time.
func within(limit time.Duration, probe func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := waittest.Poll(ctx, probe); err != nil {
		return fmt.Errorf("after %s: %w", limit, err)
	}
	return nil
}
