package controlplane_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

func TestServiceAccountConfig_IsTheAccountWithItsGroupsAndNothingElse(t *testing.T) {
	t.Parallel()
	cfg, err := shared.ServiceAccountConfig("kube-system", "reader")
	if err != nil {
		t.Fatal(err)
	}
	user := whoAmI(t, cfg)
	slices.Sort(user.Groups)
	if want := []string{
		"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:kube-system",
	}; user.Username != "system:serviceaccount:kube-system:reader" ||
		!slices.Equal(user.Groups, want) {
		t.Errorf("the identity is %s with the groups %v, want %v", user.Username, user.Groups, want)
	}
	_, err = client(t, cfg).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a list of Nodes without a binding: %v, want forbidden", err)
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

func TestKubeconfig_UnsupportedConfig_ErrorNamesTheCause(t *testing.T) {
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
