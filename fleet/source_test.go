package fleet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/waittest"
)

// kubeconfig is one with a token.
func kubeconfig(token string) string {
	return `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "https://c.invalid:6443"}}],
"users": [{"name": "u", "user": {"token": "` + token + `"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`
}

// follow runs a source, and returns the wait for an update that reads like the wanted text: each
// cluster's name, token, provider configuration, and "failed".
func follow(t *testing.T, source fleet.Source) func(want string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	updates, done := make(chan string, 100), make(chan error, 1)
	go func() {
		done <- source.Run(ctx, func(all []fleet.Cluster) {
			var texts []string
			for _, c := range all {
				text := c.Name
				switch {
				case c.Err != nil && strings.Contains(c.Err.Error(), "secret"):
					text += " failed with a secret in its error"
				case c.Err != nil:
					text += " failed"
				default:
					text += " " + c.RESTConfig.BearerToken + string(c.CloudConfig)
				}
				texts = append(texts, text)
			}
			slices.Sort(texts)
			updates <- strings.Join(texts, ", ")
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the source: %v", err)
		}
	})
	last := "no update"
	return func(want string) {
		t.Helper()
		waittest.Until(t, "the source yields "+want, func() error {
			for last != want {
				select {
				case last = <-updates:
				default:
					return fmt.Errorf("the last update is %s", last)
				}
			}
			return nil
		})
	}
}

func TestDirectory_FilesChange_ClustersFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wait := follow(t, fleet.Directory(dir))
	wait("")
	write("a/kubeconfig", kubeconfig("one"))
	write("a/cloud.conf", "+cloud")
	write(".hidden/kubeconfig", kubeconfig("hidden"))
	wait("a one+cloud")
	write("a/kubeconfig", kubeconfig("two"))
	write("b/kubeconfig", "secret: [garbage")
	wait("a two+cloud, b failed")
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	wait("b failed")
}

func TestDirectory_KubeconfigNamesAFile_IsReadOnlyIfTheSourceIsTrusted(t *testing.T) {
	t.Parallel()
	dir, token := t.TempDir(), filepath.Join(t.TempDir(), "token")
	config := strings.Replace(kubeconfig(""), `"token": ""`, `"tokenFile": "`+token+`"`, 1)
	folder := filepath.Join(dir, "a")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		token: "of-the-file", filepath.Join(folder, "kubeconfig"): config,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	follow(t, fleet.Directory(dir))("a failed")
	follow(t, fleet.Trusted(fleet.Directory(dir)))("a of-the-file")
}

func TestFleet_KubeconfigHasAFieldThatActs_StatusNamesTheField(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "a")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(kubeconfig(""), `"token": ""`, `"exec": {"command": "secret"}`, 1)
	if err := os.WriteFile(filepath.Join(folder, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newWorld(t, 0).start("only", func(p *fleet.Params) {
		// Behind a SourceFunc, the Trusted of the test does not reach the parser.
		p.Source = fleet.SourceFunc(fleet.Directory(dir).Run)
	})
	const want = "users[0].user.exec is not allowed in the kubeconfig of a fleet"
	waittest.Until(t, "the status names the field", func() error {
		c := statusOf(r, "a")
		if c.State != fleet.StateFailed || !strings.Contains(c.Reason, want) ||
			strings.Contains(c.Reason, "secret") {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

func TestDirectory_CannotBeRead_IsAnError(t *testing.T) {
	source := fleet.Directory(filepath.Join(t.TempDir(), "missing"))
	err := source.Run(t.Context(), func([]fleet.Cluster) { t.Error("an update came") })
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("the error is %v", err)
	}
}

func TestSecrets_SecretsChange_ClustersFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	secrets := kubernetes.NewForConfigOrDie(cluster.RESTConfig()).CoreV1().Secrets(w.namespace)
	set := func(name, config string, labels map[string]string) {
		t.Helper()
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Data: map[string][]byte{
				"kubeconfig": []byte(config), "cloud.conf": []byte("+cloud"),
			},
		}
		_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
		if err != nil {
			_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{"fxccm.dev/fleet-cluster": "true"}
	set("a", kubeconfig("one"), labels)
	set("other", kubeconfig("other"), nil)
	wait := follow(t, fleet.Secrets(fleet.SecretsConfig{
		Management: cluster.RESTConfig(), Namespace: w.namespace,
	}))
	wait("a one+cloud")
	set("a", kubeconfig("two"), labels)
	set("b", "secret: [garbage", labels)
	wait("a two+cloud, b failed")
	if err := secrets.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("b failed")
}

func TestSecretsAndClusters_KubeconfigNamesAFile_IsReadOnlyIfTheSourceIsTrusted(t *testing.T) {
	t.Parallel()
	w := newDeletedWorld(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("of-the-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := []byte(strings.Replace(kubeconfig(""), `"token": ""`, `"tokenFile": "`+token+`"`, 1))
	if _, err := w.client.CoreV1().Secrets(w.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{"fxccm.dev/fleet-cluster": "true"},
		},
		Data: map[string][]byte{"kubeconfig": config},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": map[string]any{},
	}}
	object.SetName("a")
	object.SetLabels(map[string]string{"fleet": "files"})
	if _, err := w.clustersAPI().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.addSecret("a", "-kubeconfig", "value", config)

	secrets := fleet.Secrets(fleet.SecretsConfig{
		Management: cluster.RESTConfig(), Namespace: w.namespace,
	})
	clusters := w.source("files", false)
	follow(t, secrets)("a failed")
	follow(t, clusters)(w.namespace + ".a failed")
	follow(t, fleet.Trusted(secrets))("a of-the-file")
	follow(t, fleet.Trusted(clusters))(w.namespace + ".a of-the-file")
}
