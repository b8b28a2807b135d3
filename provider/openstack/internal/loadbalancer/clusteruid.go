package loadbalancer

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// clusterUID reads the UID of the namespace kube-system once: it identifies the cluster.
type clusterUID struct {
	kube func() (kubernetes.Interface, error)

	mu  sync.Mutex
	uid string
}

func (c *clusterUID) get(ctx context.Context) (string, error) {
	c.mu.Lock()
	uid := c.uid
	c.mu.Unlock()
	if uid != "" {
		return uid, nil
	}
	client, err := c.kube()
	if err != nil {
		return "", fmt.Errorf("get a client to read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem,
		metav1.GetOptions{})
	if err != nil {
		return "",
			fmt.Errorf(
				"read the UID of namespace %s, which identifies this cluster's load balancers: %w",
				metav1.NamespaceSystem, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uid = string(namespace.UID)
	return c.uid, nil
}
