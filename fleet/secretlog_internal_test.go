package fleet

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// managementWithSecrets is a management cluster with one Cluster, which is being deleted, and one
// Secret with the text "secret-of-the-owner".
func managementWithSecrets(t *testing.T) *rest.Config {
	t.Helper()
	const cluster = `"metadata":{"name":"shop","namespace":"n","uid":"u",
		"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["` + loadBalancersFinalizer + `"]}`
	group := `"name":"` + clusterAPIGroup + `","versions":[{"groupVersion":"` + clusterAPIGroup +
		`/v1beta2","version":"v1beta2"}],"preferredVersion":{"groupVersion":"` + clusterAPIGroup +
		`/v1beta2","version":"v1beta2"}`
	answers := map[string]string{
		"/api": `{"kind":"APIVersions","versions":[]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{` +
			group + `}]}`,
		"/apis/" + clusterAPIGroup: `{"kind":"APIGroup","apiVersion":"v1",` + group + `}`,
		"/api/v1/namespaces/n/secrets": `{"kind":"SecretList","apiVersion":"v1","metadata":{
			"resourceVersion":"1"},"items":[{"metadata":{"name":"shop-kubeconfig","namespace":"n",
			"labels":{"` + clusterNameLabel + `":"shop"}},"stringData":{"x":"secret-of-the-owner"}}]}`,
		"/apis/" + clusterAPIGroup + "/v1beta2": `{"kind":"APIResourceList","apiVersion":"v1",
			"groupVersion":"` + clusterAPIGroup + `/v1beta2","resources":[{"name":"clusters",
			"namespaced":true,"kind":"Cluster","verbs":["list","watch"]}]}`,
		"/apis/" + clusterAPIGroup + "/v1beta2/namespaces/n/clusters": `{
			"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{
			"resourceVersion":"1"},"items":[{"kind":"PartialObjectMetadata",
			"apiVersion":"meta.k8s.io/v1",` + cluster + `}]}`,
		"/apis/" + clusterAPIGroup + "/v1beta2/namespaces/n/clusters/shop": `{"kind":"Cluster",
			"apiVersion":"` + clusterAPIGroup + `/v1beta2",` + cluster + `}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case !found:
			w.WriteHeader(http.StatusNotFound)
		case query.Get("sendInitialEvents") != "": // a watch has no body in the log, but a list has
			w.WriteHeader(http.StatusUnprocessableEntity)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid",
				"code":422}`
		case query.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		// client-go logs a body with tabs as a hexadecimal dump, which hides the text.
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "\t", ""))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// logged returns a context whose logger writes everything, and what it has written.
func logged(t *testing.T) (context.Context, func() string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{Verbosity: 10})
	return klog.NewContext(t.Context(), log), func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}
}

func TestSources_MostVerboseLogger_LogNoContentOfSecrets(t *testing.T) {
	t.Parallel()
	management := managementWithSecrets(t)
	for name, source := range map[string]Source{
		"Secrets":     Secrets(SecretsConfig{Management: management, Namespace: "n"}),
		"Cluster API": ClusterAPI(ClusterAPIConfig{Management: management, Namespace: "n"}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, log := logged(t)
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			if err := source.Run(ctx, func(all []Cluster) {
				if len(all) == 1 {
					stop()
				}
			}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log(), "Starting reflector") {
				t.Error("the informer does not use the logger of the context")
			}
			if strings.Contains(log(), "secret-of-the-owner") {
				t.Errorf("the log has the content of a Secret:\n%s", log())
			}
		})
	}
}

func TestClusterObject_MostVerboseLogger_LogsNoContentOfSecrets(t *testing.T) {
	t.Parallel()
	management := managementWithSecrets(t)
	client, err := kubernetes.NewForConfig(management)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(management)
	if err != nil {
		t.Fatal(err)
	}
	object := &clusterObject{clusterObjects: &clusterObjects{
		client: client, objects: objects, namespace: "n", resource: schema.GroupVersionResource{
			Group: clusterAPIGroup, Version: "v1beta2", Resource: "clusters",
		},
	}, namespace: "n", name: "shop", uid: "u"}
	ctx, log := logged(t)
	if d, err := object.readDeletion(ctx); err != nil || d.noKubeconfig {
		t.Fatalf("the deletion is %+v, error %v", d, err)
	}
	if strings.Contains(log(), "secret-of-the-owner") {
		t.Errorf("the log has the content of a Secret:\n%s", log())
	}
}
