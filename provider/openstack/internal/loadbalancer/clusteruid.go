package loadbalancer

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// readClusterUID returns a function that reads the UID of the namespace kube-system once. The UID
// identifies the cluster.
func readClusterUID(
	kube func() (kubernetes.Interface, error),
) func(context.Context) (string, error) {
	var known atomic.Pointer[string]
	return func(ctx context.Context) (string, error) {
		if uid := known.Load(); uid != nil {
			return *uid, nil
		}
		client, err := kube()
		if err != nil {
			return "", fmt.Errorf("get a client to read namespace %s: %w", metav1.NamespaceSystem,
				err)
		}
		namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem,
			metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf(
				"read the UID of namespace %s, which identifies this cluster's load balancers: %w",
				metav1.NamespaceSystem, err)
		}
		uid := string(namespace.UID)
		known.Store(&uid)
		return uid, nil
	}
}
