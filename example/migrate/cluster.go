package migrate

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

// Cluster is a Kubernetes cluster, such as the migrated one.
type Cluster struct {
	kubernetes.Interface
	Config *rest.Config
}

// Connect reads a kubeconfig, and sends no request. If path is empty, it uses $KUBECONFIG or
// ~/.kube/config, like kubectl.
func Connect(path string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no kubeconfig: give --kubeconfig, or set KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	return &Cluster{client, config}, err
}

// World has the objects that the load balancers of a cluster depend on.
type World struct {
	// UID is the UID of the namespace kube-system, which identifies the cluster.
	UID string
	// Services are the Services that a cloud controller manager serves.
	Services []*v1.Service
	Nodes    []*v1.Node
}

// Read reads the Services and the nodes.
func (c *Cluster) Read(ctx context.Context) (World, error) {
	namespace, err := c.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return World{}, fmt.Errorf("read the UID of namespace %s: %w", metav1.NamespaceSystem, err)
	}
	world := World{UID: string(namespace.UID)}
	services, err := c.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return World{}, fmt.Errorf("list the Services: %w", err)
	}
	for i := range services.Items {
		if s := &services.Items[i]; isServed(s) {
			world.Services = append(world.Services, s)
		}
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return World{}, fmt.Errorf("list the nodes: %w", err)
	}
	for i := range nodes.Items {
		world.Nodes = append(world.Nodes, &nodes.Items[i])
	}
	return world, nil
}

// isServed reports whether upstream's service controller serves a Service. It skips Services with a
// load balancer class.
func isServed(s *v1.Service) bool {
	if s.Spec.Type == v1.ServiceTypeLoadBalancer {
		return s.Spec.LoadBalancerClass == nil
	}
	return servicehelpers.HasLBFinalizer(s)
}
