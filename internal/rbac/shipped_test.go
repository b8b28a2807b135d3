package rbac_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rbac"
	"github.com/fxccm/fxccm/internal/waittest"
)

const (
	shipped  = "../../deploy/base/rbac.yaml"
	accountN = "cloud-controller-manager"
)

func clientFor(
	t *testing.T, cp *controlplane.ControlPlane, namespace, name string,
) kubernetes.Interface {
	t.Helper()
	cfg, err := cp.ServiceAccountConfig(namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(cfg)
}

func TestShippedRules_OnARealAPIServer(t *testing.T) {
	cp := controlplane.ForTest(t)
	admin := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	m, err := rbac.Load(shipped)
	if err != nil {
		t.Fatal(err)
	}
	ctx := waittest.Context(t)
	for range 2 { // the second time, the objects exist
		if err := m.Apply(ctx, admin); err != nil {
			t.Fatal(err)
		}
	}
	user := controlplane.ServiceAccountUser("kube-system", accountN)
	granted, err := m.Permissions(user)
	if err != nil {
		t.Fatal(err)
	}
	account := clientFor(t, cp, "kube-system", accountN)
	// The authorizer sees each object with its own delay.
	for _, p := range granted {
		awaitPermission(ctx, t, account, p)
	}

	t.Run("harmful requests are denied", func(t *testing.T) {
		for _, p := range []rbac.Permission{
			{Verb: "get", Resource: "secrets", Namespace: "kube-system"},
			{Verb: "create", Resource: "nodes"},
			{Verb: "update", Resource: "services", Namespace: "default"},
			{Verb: "create", Resource: "serviceaccounts/token", Namespace: "kube-system"},
			{Verb: "update", APIGroup: "coordination.k8s.io", Resource: "leases", ResourceName: "kube-controller-manager", Namespace: "kube-system"},
			{Verb: "update", APIGroup: "coordination.k8s.io", Resource: "leases", ResourceName: "n1", Namespace: "kube-node-lease"},
			{Verb: "get", Resource: "configmaps", ResourceName: "other", Namespace: "kube-system"},
			{Verb: "patch", Resource: "configmaps", ResourceName: "extension-apiserver-authentication", Namespace: "kube-system"},
			{Verb: "create", Resource: "configmaps", Namespace: "default"},
			{Verb: "escalate", APIGroup: rbacv1.GroupName, Resource: "clusterroles"},
		} {
			if allowed(ctx, t, account, p) {
				t.Errorf("allowed: %s", p)
			}
		}
	})
	t.Run("the comparison lists used and denied permissions",
		func(t *testing.T) { testCompareRealRequests(ctx, t, cp, account, granted) })
	t.Run("Apply removes rules that the manifest no longer has",
		func(t *testing.T) { testApplyRestores(ctx, t, admin, account, m) })
}

func testCompareRealRequests(
	ctx context.Context, t *testing.T, cp *controlplane.ControlPlane, account kubernetes.Interface,
	granted []rbac.Permission,
) {
	t.Helper()
	mark := cp.Audit().Mark()
	factory := informers.NewSharedInformerFactory(account, 0)
	nodes := factory.Core().V1().Nodes().Informer().HasSynced
	running, stop := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer stop()
	factory.Start(running.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes) {
		t.Fatal("the informer of Nodes does not sync")
	}
	if err := account.CoreV1().Nodes().Delete(ctx, "n1",
		metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("deletion of a Node that does not exist: %v", err)
	}
	if _, err := account.CoreV1().Secrets("default").Get(ctx, "s",
		metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("reading a Secret: %v, want forbidden", err)
	}

	user := controlplane.ServiceAccountUser("kube-system", accountN)
	if _, err := cp.Audit().Wait(ctx, mark, 1, controlplane.ByUser(user),
		controlplane.ByResource("", "secrets")); err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Audit().Wait(ctx, mark, 1, controlplane.ByUser(user),
		controlplane.ByVerb("watch")); err != nil {
		t.Fatal(err)
	}
	records, err := cp.Audit().Since(mark)
	if err != nil {
		t.Fatal(err)
	}
	report := rbac.Compare(granted, records, user)
	for _, used := range []string{"list nodes", "watch nodes", "delete nodes"} {
		if slices.ContainsFunc(report.Unused,
			func(p rbac.Permission) bool { return p.String() == used }) {
			t.Errorf("%q was used by an informer or by a deletion, and is reported as unused", used)
		}
	}
	if want := len(granted) - 3; len(report.Unused) != want {
		t.Errorf("%d permissions are reported as unused, want %d:\n%s", len(report.Unused), want,
			report)
	}
	if len(report.Denied) != 1 || report.Denied[0].Missing.String() != "get secrets in default" {
		t.Errorf("%v are reported as denied, want the Secret", report.Denied)
	}
}

func testApplyRestores(
	ctx context.Context, t *testing.T, admin, account kubernetes.Interface, m *rbac.Manifests,
) {
	t.Helper()
	role, err := admin.RbacV1().ClusterRoles().Get(ctx, accountN, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := rbac.Permission{Verb: "get", Resource: "secrets"}
	role.Rules = append(role.Rules,
		rbacv1.PolicyRule{
			Verbs: []string{"get"}, APIGroups: []string{""},
			Resources: []string{"secrets"},
		})
	if _, err := admin.RbacV1().ClusterRoles().Update(ctx, role,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPermission(ctx, t, account, secrets)
	if err := m.Apply(ctx, admin); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the right to read Secrets is gone",
		func() bool { return !allowed(ctx, t, account, secrets) })
}

func TestApply_WhenTheAPIServerRefuses_NamesTheObject(t *testing.T) {
	cp := controlplane.ForTest(t)
	m, err := load(t, strings.ReplaceAll(manifest, "namespace: kube-system", "namespace: missing"))
	if err != nil {
		t.Fatal(err)
	}
	err = m.Apply(t.Context(), kubernetes.NewForConfigOrDie(cp.RESTConfig()))
	if !apierrors.IsNotFound(errors.Unwrap(err)) ||
		!strings.Contains(err.Error(), "apply ServiceAccount missing/ccm") {
		t.Errorf("Apply: %v, want an error that the namespace of the ServiceAccount is not found", err)
	}
}

func allowed(
	ctx context.Context, t *testing.T, account kubernetes.Interface, p rbac.Permission,
) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	review, err := account.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: p.Verb, Group: p.APIGroup, Resource: resource, Subresource: subresource,
					Name: p.ResourceName, Namespace: p.Namespace,
				},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func awaitPermission(
	ctx context.Context, t *testing.T, account kubernetes.Interface, p rbac.Permission,
) {
	t.Helper()
	waittest.Until(t, p.String()+" is allowed", func() bool { return allowed(ctx, t, account, p) })
}
