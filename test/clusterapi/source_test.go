// Package clusterapi_test runs the fleet's source of Cluster API with the types that Cluster API
// publishes. It is a separate module, because the library does not need them.
package clusterapi_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/waittest"
)

// The import adds the module, whose files have the definitions.
var _ = version.MinimumKubernetesVersion

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// definition reads the CustomResourceDefinition of Clusters from Cluster API's module.
func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	list := exec.CommandContext(t.Context(),
		"go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("find Cluster API's module: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)),
		"core/config/crd/bases/cluster.x-k8s.io_clusters.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

func kubeconfig(token string) []byte {
	return []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "https://c.invalid:6443"}}],
"users": [{"name": "u", "user": {"token": "` + token + `"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`)
}

// follower has the last update and the errors of a source.
type follower struct {
	mu   sync.Mutex
	last string
	err  error
}

func follow(t *testing.T, source fleet.Source) *follower {
	t.Helper()
	f := &follower{last: "no update"}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := source.Run(ctx, f.update)
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
			select { // like the fleet, but sooner
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if f.err != nil {
			t.Errorf("the stopped source: %v", f.err)
		}
	})
	return f
}

func (f *follower) update(all []fleet.Cluster) {
	var texts []string
	for _, c := range all {
		text := fmt.Sprintf("%s[%s]", c.Name, c.Labels["tier"])
		if c.Err != nil {
			text += " " + c.Err.Error()
		} else {
			text += " " + c.RESTConfig.BearerToken + string(c.CloudConfig)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = strings.Join(texts, ", ")
}

func (f *follower) wait(t *testing.T, want string) {
	t.Helper()
	waittest.Until(t, "the source yields "+want, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.last != want {
			return fmt.Errorf("the last update is %q, the error %v", f.last, f.err)
		}
		return nil
	})
}

func TestClusterAPI_ClustersAndSecretsChange_TheFleetFollows(t *testing.T) {
	c, ctx := newClient(t), t.Context()
	f := follow(t, fleet.ClusterAPI(fleet.ClusterAPIConfig{Management: cluster.RESTConfig()}))
	waittest.Until(t, "the source reports that Cluster API is missing", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err == nil || !strings.Contains(f.err.Error(), "has no Cluster API") {
			return fmt.Errorf("the error is %v", f.err)
		}
		return nil
	})
	crd := definition(t)
	create(ctx, t, c, crd)
	f.wait(t, "")

	for _, name := range []string{"team-a", "team-b"} {
		create(ctx, t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	one := newCluster("team-a", "one")
	create(ctx, t, c, one)
	f.wait(t, `team-a.one[gold] there is no Secret one-kubeconfig with the key "value" yet`)

	secret := newSecret("team-a", "one", "-kubeconfig", map[string][]byte{"value": kubeconfig("1")})
	create(ctx, t, c, secret)
	f.wait(t, "team-a.one[gold] 1")
	create(ctx, t, c, newSecret("team-a", "one", "-cloud-config",
		map[string][]byte{"cloud.conf": []byte("+cloud")}))
	f.wait(t, "team-a.one[gold] 1+cloud")

	secret.Data["value"] = kubeconfig("2")
	if err := c.Update(ctx, secret); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, c, newCluster("team-b", "one"))
	create(ctx, t, c, newSecret("team-b", "one", "-kubeconfig",
		map[string][]byte{"value": kubeconfig("3")}))
	f.wait(t, "team-a.one[gold] 2+cloud, team-b.one[gold] 3")

	// A Cluster that is being deleted still has nodes and Services.
	if err := c.Delete(ctx, one); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, c, newCluster("team-b", "two"))
	f.wait(t, "team-a.one[gold] 2+cloud, team-b.one[gold] 3, "+
		`team-b.two[gold] there is no Secret two-kubeconfig with the key "value" yet`)
	if err := c.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
		t.Fatal(err)
	}
	one.Finalizers = nil
	if err := c.Update(ctx, one); err != nil {
		t.Fatal(err)
	}
	f.wait(t, "team-b.one[gold] 3, "+
		`team-b.two[gold] there is no Secret two-kubeconfig with the key "value" yet`)

	// Cluster API removes a version, so the source must read another one.
	if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		v.Served, v.Storage = v.Name == "v1beta1", v.Name == "v1beta1"
	}
	if err := c.Update(ctx, crd); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, c, newSecret("team-b", "two", "-kubeconfig",
		map[string][]byte{"value": kubeconfig("4")}))
	f.wait(t, "team-b.one[gold] 3, team-b.two[gold] 4")
}

func create(ctx context.Context, t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
}

// newCluster is a Cluster with the finalizer of Cluster API's own controller.
func newCluster(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"tier": "gold"},
			Finalizers: []string{clusterv1.ClusterFinalizer},
		},
		Spec: clusterv1.ClusterSpec{
			Paused: ptr.To(false),
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "OpenStackCluster", Name: name,
			},
		},
	}
}

func newSecret(namespace, cluster, suffix string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: cluster + suffix,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Data: data,
	}
}
