package chart

import (
	"context"
	"errors"
	"strings"
	"testing"

	// It is the package with the types from which the CRDs are generated.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/internal/waittest"
)

const operatorAPI = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

// installOperatorCRDs installs the CRDs of Prometheus operator that the chart needs. Their schemas
// are generated from the operator's published Go types, as the operator does.
func installOperatorCRDs(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	roots, err := loader.LoadRoots(operatorAPI)
	if err != nil || len(roots) != 1 {
		t.Fatalf("%d packages, %v", len(roots), err)
	}
	registry := &markers.Registry{}
	generator := crd.Generator{}
	if err := generator.RegisterMarkers(registry); err != nil {
		t.Fatal(err)
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker: &loader.TypeChecker{
			NodeFilters: []loader.NodeFilter{generator.CheckFilter()},
		},
	}
	crd.AddKnownTypes(parser)
	parser.NeedPackage(roots[0])
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		group := schema.GroupKind{Group: "monitoring.coreos.com", Kind: kind}
		parser.NeedCRDFor(group, nil)
		definition := parser.CustomResourceDefinitions[group]
		crd.FixTopLevelMetadata(definition)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&definition)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(object.Object, "status")
		object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind(
			"CustomResourceDefinition"))
		if err := deploy.Create(t.Context(), cp.RESTConfig(), metav1.CreateOptions{},
			object); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, kind+" is served", func(ctx context.Context) error {
			resources, err := discovery.NewDiscoveryClientForConfigOrDie(cp.RESTConfig()).
				ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
			if err != nil {
				return err
			}
			for _, resource := range resources.APIResources {
				if resource.Kind == kind {
					return nil
				}
			}
			return errors.New("the API server does not list the kind")
		})
	}
}

// checkFields fails the test if the API server refuses a rendered object, or does not know one of
// its fields.
func checkFields(t *testing.T, cp *controlplane.ControlPlane, text string) {
	t.Helper()
	manifests, err := render(t, "Helm", text)
	if err != nil {
		t.Fatal(err)
	}
	for name, manifest := range manifests {
		if err := deploy.Create(t.Context(), cp.RESTConfig(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}},
			objects(t, manifest)...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// objects are the objects of a manifest.
func objects(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for text := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
	return all
}
