package controllers

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// waitingCloud is the cloud that upstream gets: its answers about load balancers are remembered.
type waitingCloud struct {
	cloudprovider.Interface
	balancers waitingBalancers
}

// LoadBalancer implements cloudprovider.Interface.
func (c waitingCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancers, true }

type waitingBalancers struct {
	cloudprovider.LoadBalancer
	waits *waits
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. Upstream asks before it deletes, and takes for done what does not exist.
func (b waitingBalancers) GetLoadBalancer(ctx context.Context, cluster string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	status, exists, err := b.LoadBalancer.GetLoadBalancer(ctx, cluster, unmarked(service))
	switch {
	case asksAgain(err):
		err = unfinished{err}
	case err == nil && !exists:
		b.waits.forget(keyOf(service))
	}
	return status, exists, err
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (b waitingBalancers) GetLoadBalancerName(ctx context.Context, cluster string, service *v1.Service) string {
	return b.LoadBalancer.GetLoadBalancerName(ctx, cluster, unmarked(service))
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b waitingBalancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	status, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, unmarked(service), nodes)
	return status, b.waits.answered(service, false, err)
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. After an error upstream has the load balancer ensured; any other answer
// ends no wait.
func (b waitingBalancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) error {
	err := b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, unmarked(service), nodes)
	switch {
	case asksAgain(err):
		return b.waits.answered(service, false, err)
	case err == nil && len(nodes) == 0:
		b.waits.emptied(service)
	}
	return err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b waitingBalancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *v1.Service) error {
	err := b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, unmarked(service))
	return b.waits.answered(service, true, err)
}

// waitingServices marks the Services that wait. Upstream asks for a Service by its name at the beginning of each pass.
type waitingServices struct {
	coreinformers.ServiceInformer
	waits *waits
}

// Lister implements coreinformers.ServiceInformer.
func (s waitingServices) Lister() corelisters.ServiceLister {
	return waitingLister{s.ServiceInformer.Lister(), s.waits}
}

type waitingLister struct {
	corelisters.ServiceLister
	waits *waits
}

// Services implements corelisters.ServiceLister.
func (l waitingLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return waitingNamespace{l.ServiceLister.Services(namespace), namespace, l.waits}
}

type waitingNamespace struct {
	corelisters.ServiceNamespaceLister
	namespace string
	waits     *waits
}

// Get implements corelisters.ServiceNamespaceLister.
func (n waitingNamespace) Get(name string) (*v1.Service, error) {
	service, err := n.ServiceNamespaceLister.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		n.waits.forget(types.NamespacedName{Namespace: n.namespace, Name: name})
	case err == nil:
		service = n.waits.mark(service)
	}
	return service, err
}

// waitingClient holds back the events of waiting.
type waitingClient struct {
	kubernetes.Interface
	waits *waits
}

// CoreV1 implements kubernetes.Interface.
func (c waitingClient) CoreV1() corev1client.CoreV1Interface {
	return waitingCore{c.Interface.CoreV1(), c.waits}
}

type waitingCore struct {
	corev1client.CoreV1Interface
	waits *waits
}

// Events implements corev1client.EventsGetter.
func (c waitingCore) Events(namespace string) corev1client.EventInterface {
	return waitingEvents{c.CoreV1Interface.Events(namespace), c.waits}
}
