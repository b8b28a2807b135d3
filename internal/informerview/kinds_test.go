package informerview_test

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	nodesResource   = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	unknownResource = schema.GroupVersionResource{
		Group: "example.com", Version: "v1",
		Resource: "widgets",
	}
)

// knownResources returns all kinds of client-go, as resources.
func knownResources() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		all = append(all, plural)
	}
	return all
}
