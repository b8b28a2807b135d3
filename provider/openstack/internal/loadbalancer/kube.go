package loadbalancer

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// clusterUID tells the cluster from all others: the UID of the namespace kube-system. It is asked for once.
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
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the UID of namespace %s, which identifies this cluster's load balancers: %w", metav1.NamespaceSystem, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uid = string(namespace.UID)
	return c.uid, nil
}

// objects are the Services and nodes of the informers, if there are any.
type objects struct {
	mu       sync.RWMutex
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	synced   func() bool
}

// set gives the informers' listers. synced tells whether both are complete.
func (o *objects) set(services corelisters.ServiceLister, nodes corelisters.NodeLister, synced func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.services, o.nodes, o.synced = services, nodes, synced
}

func (o *objects) listers() (corelisters.ServiceLister, corelisters.NodeLister, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.services, o.nodes, o.synced != nil && o.synced()
}

// current is the Service as it is now, or as the caller has it if that is all that is known; false if it wants no load balancer.
func (o *objects) current(service *v1.Service) (*v1.Service, bool) {
	services, _, synced := o.listers()
	if !synced {
		return service, wanted(service)
	}
	now, err := services.Services(service.Namespace).Get(service.Name)
	if err != nil || now.UID != service.UID {
		return nil, false
	}
	return now, wanted(now)
}

// wanted tells whether the Service wants a load balancer. Upstream's controller leaves those with a class to others; a host may have a
// controller of its own for one, with this provider.
func wanted(service *v1.Service) bool {
	return service.Spec.Type == v1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil
}

func (o *objects) nodesOr(given []*v1.Node) []*v1.Node {
	_, nodes, synced := o.listers()
	if !synced {
		return given
	}
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return given
	}
	return all
}

// annotate sets annotations of the Service that differ; nil removes one.
func (l *LoadBalancers) annotate(ctx context.Context, service *v1.Service, want map[string]*string) error {
	differ := map[string]*string{}
	for name, value := range want {
		has, ok := service.Annotations[name]
		if ok != (value != nil) || ok && has != *value {
			differ[name] = value
		}
	}
	if len(differ) == 0 {
		return nil
	}
	client, err := l.config.Kube()
	if err != nil {
		return fmt.Errorf("get a client to annotate the Service: %w", err)
	}
	// The UID keeps it from a Service of the same name that was made since.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": service.UID, "annotations": differ}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotate the Service: %w", err)
	}
	return nil
}

// publish writes the status if it differs.
func (l *LoadBalancers) publish(ctx context.Context, service *v1.Service, status *v1.LoadBalancerStatus) error {
	client, err := l.config.Kube()
	if err != nil {
		return fmt.Errorf("get a client to write the Service's status: %w", err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": status.Ingress}},
	})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write the Service's status: %w", err)
	}
	return nil
}
