package controlplane_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

func TestServiceAccountIdentity_MayDoWhatItsBindingsSayAndNothingElse(t *testing.T) {
	t.Parallel()
	cp := shared
	admin := client(t, cp.RESTConfig())
	ctx := t.Context()
	cfg, err := cp.ServiceAccountConfig("kube-system", "reader")
	if err != nil {
		t.Fatal(err)
	}
	reader := client(t, cfg)

	if _, err := reader.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a list of Nodes without a binding: %v, want forbidden", err)
	}

	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"list"}, APIGroups: []string{""},
			Resources: []string{"nodes"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bindings := map[string]rbacv1.Subject{
		"the account": {Kind: "ServiceAccount", Namespace: "kube-system", Name: "reader"},
		"its group":   {Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:kube-system"},
	}
	for to, subject := range bindings {
		binding, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
				Name: "reader",
			},
			Subjects: []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// The authorizer learns of a binding through a watch.
		eventually(t, "the binding to "+to+" is in force", func() bool {
			_, err := reader.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err == nil
		})
		if err := reader.CoreV1().Nodes().Delete(ctx, "never-made",
			metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a deletion with a binding of %s that allows to list: %v, want forbidden", to,
				err)
		}
		if err := admin.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the binding to "+to+" is gone", func() bool {
			_, err := reader.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return apierrors.IsForbidden(err)
		})
	}

	denied, err := cp.Audit().All(controlplane.Denied(), controlplane.ByVerb("delete"),
		controlplane.ByName("never-made"))
	if err != nil {
		t.Fatal(err)
	}
	if len(denied) != 2 || denied[0].User != "system:serviceaccount:kube-system:reader" ||
		denied[0].Code != http.StatusForbidden {
		t.Errorf("denied deletions on record: %v, want the two of the account", denied)
	}
}

func TestIdentities_WhenNameless_AreRefused(t *testing.T) {
	t.Parallel()
	cp := shared
	if _, err := cp.UserConfig(""); err == nil {
		t.Error("a user without a name was accepted")
	}
	if _, err := cp.ServiceAccountConfig("", "ccm"); err == nil ||
		!strings.Contains(err.Error(), `"ccm"`) {
		t.Errorf("a ServiceAccount without namespace: %v, want an error that names it", err)
	}
}

func TestKubeconfig_WhenTheConfigCanNotBeWritten_SaysWhy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path,
		&rest.Config{Host: "https://h", Transport: http.DefaultTransport}); err == nil ||
		!strings.Contains(err.Error(), "Transport") {
		t.Errorf("a config with a transport: %v, want an error that names it", err)
	}
	missing := filepath.Join(t.TempDir(), "missing", "kubeconfig")
	if err := controlplane.WriteKubeconfig(missing, &rest.Config{Host: "https://h"}); err == nil ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("a file in a missing folder: %v, want an error that names it", err)
	}
}

func TestWriteKubeconfig_KeepsTheKeyToTheOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path,
		&rest.Config{Host: "https://h", BearerToken: "t"}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file's mode is %o, want 600", mode)
	}
}

func throughKubeconfig(t *testing.T, cfg *rest.Config) *rest.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path, cfg); err != nil {
		t.Fatal(err)
	}
	loaded, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
