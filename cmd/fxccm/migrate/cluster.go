package migrate

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/servicelb"
)

// Cluster is the migrated cluster, or the one in which OCCM's Pods run.
type Cluster struct{ *cli.Cluster }

// World has the objects that the load balancers of a cluster depend on.
type World struct {
	// UID is the UID of the namespace kube-system, which identifies the cluster.
	UID string
	// Services are the Services that a cloud controller manager serves.
	Services []*v1.Service
	Nodes    []*v1.Node
	// EndpointSlices lists the EndpointSlices of a Service.
	EndpointSlices func(context.Context, *v1.Service) ([]*discoveryv1.EndpointSlice, error)
}

// ReadWorld reads the Services that are served, and the nodes that the label selector selects.
func ReadWorld(
	ctx context.Context, client kubernetes.Interface, nodeSelector string,
	classes servicelb.Classes,
) (world World, err error) {
	if world.UID, err = ReadUID(ctx, client); err != nil {
		return World{}, err
	}
	services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return World{}, fmt.Errorf("list the Services: %w", err)
	}
	for i := range services.Items {
		if s := &services.Items[i]; classes.Serves(s) {
			world.Services = append(world.Services, s)
		}
	}
	world.EndpointSlices = EndpointSlices(client)
	world.Nodes, err = ReadNodes(ctx, client, nodeSelector)
	return world, err
}

// EndpointSlices returns a function that lists the EndpointSlices of a Service.
func EndpointSlices(
	client kubernetes.Interface,
) func(context.Context, *v1.Service) ([]*discoveryv1.EndpointSlice, error) {
	return func(
		ctx context.Context, service *v1.Service,
	) ([]*discoveryv1.EndpointSlice, error) {
		list, err := client.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: labels.Set{
				discoveryv1.LabelServiceName: service.Name,
			}.String()})
		if err != nil {
			return nil, fmt.Errorf("list the EndpointSlices of the Service: %w", err)
		}
		all := make([]*discoveryv1.EndpointSlice, 0, len(list.Items))
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		return all, nil
	}
}

// readWorld reads what OCCM serves: it knows no load balancer classes.
func (m *migration) readWorld(ctx context.Context) (World, error) {
	return ReadWorld(ctx, m.served, m.settings.Config.NodeSelector,
		servicelb.Classes{Default: true})
}

// ReadUID reads the UID of the namespace kube-system, which identifies the cluster.
func ReadUID(ctx context.Context, client kubernetes.Interface) (string, error) {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem,
		metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the UID of namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// ReadNodes reads the nodes that the label selector selects.
func ReadNodes(
	ctx context.Context, client kubernetes.Interface, selector string,
) ([]*v1.Node, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	nodes := make([]*v1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, nil
}
