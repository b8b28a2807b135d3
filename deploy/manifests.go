// Package deploy holds the Kubernetes manifests of the fxccm binary, for the demo and for tests.
// They are generated from the Helm chart.
package deploy

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// The tests of the chart render the manifests.
//go:generate go test -C ../test/chart . -update

//go:embed base/*.yaml fleet/rbac.yaml fleet/workload.yaml
var files embed.FS

// Files are the manifests.
func Files() fs.FS {
	base, err := fs.Sub(files, "base")
	if err != nil {
		return files // no error, because the path is valid
	}
	return base
}

// RBAC is the manifest of the rules that the binary needs, and of its ServiceAccount.
const RBAC = "rbac.yaml"

// FleetRBAC is the manifest of the rules that a fleet needs in its management cluster.
const FleetRBAC = "../fleet/rbac.yaml"

// Read returns the objects of one of the files, in order. A duplicate field is an error.
func Read(name string) ([]*unstructured.Unstructured, error) {
	data, err := files.ReadFile(path.Join("base", name))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if content != nil { // else the document has only comments
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}

// Create creates objects in the cluster of config. opts may request a dry run. The API server
// refuses unknown fields.
func Create(
	ctx context.Context, config *rest.Config, opts metav1.CreateOptions,
	objects ...*unstructured.Unstructured,
) error {
	opts.FieldValidation = metav1.FieldValidationStrict
	return each(config, objects, func(client dynamic.ResourceInterface,
		object *unstructured.Unstructured,
	) error {
		_, err := client.Create(ctx, object, opts)
		return err
	})
}

// Apply creates objects, or changes the fields that they set. It does not take fields from another
// manager, unless opts force it.
func Apply(
	ctx context.Context, config *rest.Config, opts metav1.ApplyOptions,
	objects ...*unstructured.Unstructured,
) error {
	return each(config, objects, func(client dynamic.ResourceInterface,
		object *unstructured.Unstructured,
	) error {
		_, err := client.Apply(ctx, object.GetName(), object, opts)
		return err
	})
}

// each calls do for each object until an error.
func each(config *rest.Config, objects []*unstructured.Unstructured,
	do func(dynamic.ResourceInterface, *unstructured.Unstructured) error,
) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(kinds)
	if err != nil {
		return fmt.Errorf("ask the API server for its resources: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		if err := do(client.Resource(mapping.Resource).Namespace(object.GetNamespace()),
			object); err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}
