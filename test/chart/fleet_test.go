package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// clusterDefinition has the fields of a Cluster that the fleet reads. test/clusterapi uses Cluster
// API's own definition.
const clusterDefinition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
metadata: {name: clusters.cluster.x-k8s.io}, spec: {group: cluster.x-k8s.io, scope: Namespaced,
names: {kind: Cluster, listKind: ClusterList, plural: clusters, singular: cluster},
versions: [{name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema:
{type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// A replica with the rendered arguments and the ServiceAccount serves a Cluster of Cluster API, and
// cleans up after its deletion. The audit log shows that the rendered rules are exactly those that
// it needs in the management cluster.
func TestFleet_WithTheRenderedManifests_ServesAClusterUntilItIsDeleted(t *testing.T) {
	cp := controlplane.ForTest(t)
	admin := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	objects := dynamic.NewForConfigOrDie(cp.RESTConfig())
	create := func(group, version, resource, namespace, text string) {
		t.Helper()
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		kind := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
		waittest.Until(t, "the API server creates "+resource, func(ctx context.Context) error {
			_, err := objects.Resource(kind).Namespace(namespace).Create(ctx,
				&unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
			return err
		})
	}
	create("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", clusterDefinition)

	cloud := project.New(t,
		project.OnSimulator(openstacktest.WithProvisioning(50*time.Millisecond)))
	api, release, err := netfault.APIHandler(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	workload, err := netfault.ListenHTTP(api)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := workload.Close(); err != nil {
			t.Error(err)
		}
	}()
	access, err := os.ReadFile(kubeconfig(t, workload.RESTConfig()))
	if err != nil {
		t.Fatal(err)
	}
	const clusters = "team-a"
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusters}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]map[string][]byte{
		"shop-kubeconfig": {"value": access},
		"shop-cloud-config": {
			"cloud.conf": []byte(cloud.Credentials().CloudConf("password")),
		},
	} {
		if _, err := admin.CoreV1().Secrets(clusters).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "shop"},
			},
			Data: content,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	port := freeport.ForTest(t)
	text := fleetValues(t) + fmt.Sprintf(`
securePort: %d
extraArgs: [--bind-address=127.0.0.1, --limit-outage=1s, --clusters-trusted]
metrics: {reader: {namespace: default, name: reader}}
`, port)
	overlay := values(t, text)
	overlay["fleet"].(map[string]any)["cleanUpLoadBalancers"] = true
	merged, err := yaml.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	text = string(merged)
	install(t, helm(t, cp), text)
	const account = "fxccm-fleet"
	program := start(t, podTemplate(t, text).Spec.Containers[0].Args,
		serviceAccount(t, cp, account), port)

	create("cluster.x-k8s.io", "v1beta2", "clusters", clusters,
		`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: shop}, spec: {}}`)
	server := cloud.AddServers([]string{"node-1"})[0]
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: server.Name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true",
			Effect: corev1.TaintEffectNoSchedule,
		}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the node is initialized", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, server.Name, metav1.GetOptions{})
		if err == nil && node.Spec.ProviderID == "" {
			err = errors.New("it has no provider ID")
		}
		return err
	})
	shop := objects.Resource(schema.GroupVersionResource{
		Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters",
	}).Namespace(clusters)
	waittest.Until(t, "the Cluster has the finalizer", func(ctx context.Context) error {
		object, err := shop.Get(ctx, "shop", metav1.GetOptions{})
		if err == nil && !slices.Contains(object.GetFinalizers(), "fxccm.dev/load-balancers") {
			err = fmt.Errorf("it has %q", object.GetFinalizers())
		}
		return err
	})
	metrics(t, admin, port)

	if err := workload.Set(netfault.Refuse()); err != nil {
		t.Fatal(err)
	}
	if err := shop.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the Cluster is gone", func(ctx context.Context) error {
		left, err := shop.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("it has %q", left.Items[0].GetFinalizers())
		}
		return err
	})
	stop(t, program)
	compareRules(t, cp, text, account)
}
