package loadbalancer

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
)

// objects holds the listers of Services and nodes, if informers exist.
type objects struct {
	mu       sync.RWMutex
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	synced   func() bool
}

// set sets the informers' listers. synced reports whether both are complete.
func (o *objects) set(
	services corelisters.ServiceLister, nodes corelisters.NodeLister, synced func() bool,
) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.services, o.nodes, o.synced = services, nodes, synced
}

func (o *objects) listers() (corelisters.ServiceLister, corelisters.NodeLister, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.services, o.nodes, o.synced != nil && o.synced()
}

// current returns the Service from the informer, or the caller's if the informers are not complete;
// false if the Service requests no load balancer.
func (o *objects) current(service *v1.Service) (*v1.Service, bool) {
	services, _, synced := o.listers()
	if !synced {
		return service, requestsLoadBalancer(service)
	}
	now, err := services.Services(service.Namespace).Get(service.Name)
	if err != nil || now.UID != service.UID {
		return nil, false
	}
	return now, requestsLoadBalancer(now)
}

// requestsLoadBalancer reports whether the Service requests a load balancer. The service controller
// selects the classes.
func requestsLoadBalancer(service *v1.Service) bool {
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

// SetInformers makes fxccm read Services and nodes from informers, and repair load balancers after
// nodes have changed. members lists the nodes that may be members. It must be called before the
// informers are started.
func (l *LoadBalancers) SetInformers(
	factory informers.SharedInformerFactory, members corelisters.NodeLister,
) {
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	servicesSynced, nodesSynced := services.Informer().HasSynced, nodes.Informer().HasSynced
	l.objects.set(services.Lister(), members,
		func() bool { return servicesSynced() && nodesSynced() })
	_, err := services.Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{DeleteFunc: l.forgetDeleted})
	if err != nil {
		l.config.Logger.Error(err,
			"Watching Services failed; state of a Service whose finalizer is removed by hand stays until the term ends")
	}
	_, err = nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { l.repairs.nodesMoved() },
		UpdateFunc: func(before, after any) {
			if differ(before.(*v1.Node), after.(*v1.Node)) {
				l.repairs.nodesMoved()
			}
		},
		DeleteFunc: func(any) { l.repairs.nodesMoved() },
	})
	if err != nil {
		l.config.Logger.Error(err,
			"Watching nodes failed; members follow node changes only at the next full comparison")
	}
}

// forgetDeleted forgets a deleted Service. Upstream makes no call for a Service whose type was
// changed and whose finalizer was removed by hand.
func (l *LoadBalancers) forgetDeleted(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if service, ok := object.(*v1.Service); ok {
		l.forget(service.UID)
	}
}

// differ reports whether two states of a node may result in different members. Most changes of a
// node are only news of its health.
func differ(before, after *v1.Node) bool {
	return before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID ||
		!maps.Equal(before.Labels, after.Labels) ||
		!slices.Equal(before.Status.Addresses, after.Status.Addresses) ||
		isDraining(before) != isDraining(after)
}

func isDraining(node *v1.Node) bool {
	candidates := desired.Candidates([]*v1.Node{node})
	return len(candidates) == 1 && candidates[0].Draining
}
