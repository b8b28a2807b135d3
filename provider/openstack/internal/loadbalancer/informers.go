package loadbalancer

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
)

// SetInformers has Services and nodes read from informers, and load balancers repaired that do not fit the nodes any more. It is
// called before the informers are started.
func (l *LoadBalancers) SetInformers(factory informers.SharedInformerFactory) {
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	servicesSynced, nodesSynced := services.Informer().HasSynced, nodes.Informer().HasSynced
	l.objects.set(services.Lister(), nodes.Lister(), func() bool { return servicesSynced() && nodesSynced() })
	_, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: l.forgetDeleted})
	if err != nil {
		l.config.Logger.Error(err, "Watching Services failed; state of a Service whose finalizer is removed by hand stays until the term ends")
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
		l.config.Logger.Error(err, "Watching nodes failed; members follow node changes only at the next full comparison")
	}
}

// forgetDeleted forgets a Service that is gone. Upstream does not ask about a Service that has
// changed its type and lost its finalizer by hand.
func (l *LoadBalancers) forgetDeleted(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if service, ok := object.(*v1.Service); ok {
		l.memories.forget(service.UID)
	}
}

// differ tells whether two states of a node may make different members. Most changes of a node are only news of its health.
func differ(before, after *v1.Node) bool {
	return before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Status.Addresses, after.Status.Addresses) ||
		isDraining(before) != isDraining(after)
}

func isDraining(node *v1.Node) bool {
	candidates := desired.Candidates([]*v1.Node{node})
	return len(candidates) == 1 && candidates[0].Draining
}
