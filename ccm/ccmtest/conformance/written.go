package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

// apiServerLabel is on the Leases of API servers.
const apiServerLabel = "apiserver.kubernetes.io/identity"

// objects returns the versions of the objects in the API server that the provider may write: Nodes
// and Services of the check, and Leases that did not exist before the first check.
func (x *trial) objects() map[string]string {
	x.Helper()
	versions := map[string]string{}
	add := func(kind string, object metav1.Object) {
		versions[fmt.Sprintf("%s %s", kind, object.GetName())] = object.GetResourceVersion()
	}
	core := x.client.CoreV1()
	nodes, err := core.Nodes().List(x.Context(), metav1.ListOptions{})
	if err != nil {
		x.Fatal(err)
	}
	for i := range nodes.Items {
		if node := &nodes.Items[i]; strings.HasPrefix(node.Name, prefix) {
			add("Node", node)
		}
	}
	services, err := core.Services(metav1.NamespaceDefault).List(x.Context(), metav1.ListOptions{})
	if err != nil {
		x.Fatal(err)
	}
	for i := range services.Items {
		if service := &services.Items[i]; strings.HasPrefix(service.Name, prefix) {
			add("Service", service)
		}
	}
	leases, err := x.client.CoordinationV1().Leases(metav1.NamespaceAll).List(x.Context(),
		metav1.ListOptions{LabelSelector: "!" + apiServerLabel})
	if err != nil {
		x.Fatal(err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !slices.Contains(x.others, leaseKey(lease)) {
			add("Lease "+lease.Namespace, lease)
		}
	}
	return versions
}

// leaseKeys returns the Leases that exist.
func leaseKeys(ctx context.Context, cluster ccmtest.Cluster) (keys []string, err error) {
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		return nil, err
	}
	leases, err := client.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Leases before the first check: %w", err)
	}
	for i := range leases.Items {
		keys = append(keys, leaseKey(&leases.Items[i]))
	}
	return keys, nil
}

func leaseKey(lease metav1.Object) string { return lease.GetNamespace() + "/" + lease.GetName() }

// written describes the objects that differ between two snapshots.
func written(before, after map[string]string) string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var changes []string
	for _, object := range slices.Sorted(maps.Keys(all)) {
		was, existed := before[object]
		is, exists := after[object]
		switch {
		case !existed:
			changes = append(changes, object+" was created")
		case !exists:
			changes = append(changes, object+" was deleted")
		case was != is:
			changes = append(changes, object+" was changed")
		}
	}
	return strings.Join(changes, ", ")
}
