package initfunc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
)

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions",
}

// addKind adds a cluster-scoped kind of the group example.test to the cluster, and objects of it.
// The kind is removed when the test is over.
func addKind(t *testing.T, kind string, objects ...string) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	singular := strings.ToLower(kind)
	resource := schema.GroupVersionResource{
		Group: "example.test", Version: "v1",
		Resource: singular + "s",
	}
	name := resource.GroupResource().String()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": resource.Group, "scope": "Cluster",
			"names": map[string]any{
				"kind": kind, "singular": singular,
				"plural": resource.Resource,
			},
			"versions": []any{map[string]any{
				"name": resource.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	if _, err := client.Resource(definitions).Create(t.Context(), crd,
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("add kind %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := client.Resource(definitions).Delete(context.Background(), name,
			metav1.DeleteOptions{}); err != nil {
			t.Errorf("remove kind %s: %v", kind, err)
		}
		waittest.Until(t, "kind "+kind+" is gone", func(ctx context.Context) error {
			if _, err := client.Resource(definitions).Get(ctx, name,
				metav1.GetOptions{}); err == nil {
				return errors.New("it still exists")
			}
			return nil
		})
	})
	for _, object := range objects {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": kind,
			"metadata": map[string]any{"name": object},
		}}
		// The API server serves a kind a moment after it has been added.
		ccmtest.Eventually(t, fmt.Sprintf("%s %s is created", kind, object),
			func(ctx context.Context) (*unstructured.Unstructured, error) {
				return client.Resource(resource).Create(ctx, o, metav1.CreateOptions{})
			})
	}
}
