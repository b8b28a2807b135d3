package servicelb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/internal/members"
)

const (
	// listPause is the time after which a Service is looked at again while the EndpointSlices are
	// being listed.
	listPause = time.Second
	// endpointsTrouble is the subject of a first list that fails. The owner of the informers
	// reports later failures as the same subject.
	endpointsTrouble = "informer of endpointslices"
)

// endpoints watches the EndpointSlices of the cluster from the first Service on that wants them,
// until the controller ends.
type endpoints struct {
	// open returns the informers, which are started here and shut down with the controller.
	open func() (informers.SharedInformerFactory, error)
	// changed receives the Services whose endpoints have changed.
	changed func(types.NamespacedName)
	// trouble is called while the first list fails, and with nil at its end.
	trouble func(subject string, cause error)
	// start starts informers for the life of the controller. Run sets it: the context of one
	// Service has the span of its sync.
	start func(informers.SharedInformerFactory)

	mu sync.Mutex
	// isFailing: the first list fails, and is reported.
	isFailing bool
	// factory is nil before the first request. slices and synced belong to it.
	factory informers.SharedInformerFactory
	slices  discoverylisters.EndpointSliceLister
	synced  cache.InformerSynced
}

// list returns the EndpointSlices of a Service, which the caller must not change. The error is an
// api.RetryError while they are being listed.
func (e *endpoints) list(service types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.watch(); err != nil {
		return nil, fmt.Errorf("watch EndpointSlices: %w", err)
	}
	if !e.synced() {
		return nil, e.unsynced()
	}
	e.noteListed()
	return e.slices.EndpointSlices(service.Namespace).List(labels.SelectorFromSet(labels.Set{
		discoveryv1.LabelServiceName: service.Name,
	}))
}

// watch starts the informer, unless it has been started.
func (e *endpoints) watch() error {
	if e.factory != nil {
		return nil
	}
	factory, err := e.open()
	if err != nil {
		return err
	}
	resource := factory.Discovery().V1().EndpointSlices()
	if _, err := resource.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			if !isInInitialList {
				e.sliceChanged(nil, object)
				return
			}
			// No Service has been served with endpoints before the first list is complete, and
			// none may want them any more.
			e.mu.Lock()
			defer e.mu.Unlock()
			e.noteListed()
		},
		UpdateFunc: e.sliceChanged,
		DeleteFunc: func(object any) { e.sliceChanged(object, nil) },
	}); err != nil {
		return err
	}
	e.start(factory)
	e.factory, e.slices, e.synced = factory, resource.Lister(), resource.Informer().HasSynced
	return nil
}

// unsynced returns why the EndpointSlices are not listed, if it is known, and reports it. mu is
// held.
func (e *endpoints) unsynced() error {
	if view, ok := e.factory.(interface{ Failure() error }); ok {
		if err := view.Failure(); err != nil {
			e.isFailing = true
			e.trouble(endpointsTrouble, err)
			return err
		}
	}
	return api.NewRetryError("EndpointSlices are being listed", listPause)
}

// noteListed reports the end of a first list that failed. mu is held.
func (e *endpoints) noteListed() {
	if e.isFailing {
		e.isFailing = false
		e.trouble(endpointsTrouble, nil)
	}
}

// close waits for the end of the informer, whose context has ended.
func (e *endpoints) close() {
	e.mu.Lock()
	factory := e.factory
	e.mu.Unlock()
	if factory != nil {
		factory.Shutdown()
	}
}

// sliceChanged reports the Services of an EndpointSlice whose endpoints have changed.
func (e *endpoints) sliceChanged(before, after any) {
	if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = gone.Obj
	}
	was, hasWas := before.(*discoveryv1.EndpointSlice)
	is, hasIs := after.(*discoveryv1.EndpointSlice)
	if hasWas && hasIs && sameEndpoints(was, is) {
		return
	}
	var first types.NamespacedName
	if hasWas {
		first = serviceOf(was)
		e.changed(first)
	}
	if hasIs && (!hasWas || serviceOf(is) != first) {
		e.changed(serviceOf(is))
	}
}

// sameEndpoints compares what a provider gets.
func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	return serviceOf(a) == serviceOf(b) &&
		equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) &&
		equality.Semantic.DeepEqual(a.Ports, b.Ports)
}

// serviceOf returns the Service of an EndpointSlice, with an empty name if it has none.
func serviceOf(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{
		Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName],
	}
}

// A version identifies what a load balancer has been given besides its Service.
type version struct {
	// nodes and endpoints are higher after each change of these.
	nodes, endpoints uint64
	// wantsEndpoints: the provider wanted the endpoints.
	wantsEndpoints bool
}

// input is what a provider gets for a Service, as it is at one moment.
type input struct {
	nodes     []*v1.Node
	endpoints []*discoveryv1.EndpointSlice
	version   version
}

// lacksNodes reports whether a load balancer has no members for lack of nodes.
func (i input) lacksNodes() bool { return len(i.nodes) == 0 && !i.version.wantsEndpoints }

// wantsEndpoints reports whether the members of a Service's load balancer are endpoints.
func (c *Controller) wantsEndpoints(service *v1.Service) bool {
	balancer, ok := c.Cloud.(members.EndpointBalancer)
	return ok && c.endpoints.open != nil && balancer.WantsEndpoints(service.DeepCopy())
}

// read returns what the provider gets for a Service now.
func (c *Controller) read(
	ctx context.Context, key types.NamespacedName, service *v1.Service, s *served,
) (input, error) {
	// The numbers come first: a change meanwhile leads to one update more, and not to one less.
	now := input{version: version{
		nodes: c.nodesVersion.Load(), wantsEndpoints: c.wantsEndpoints(service),
	}}
	c.mu.Lock()
	s.wantsEndpoints, now.version.endpoints = now.version.wantsEndpoints, s.endpointsVersion
	c.mu.Unlock()
	var err error
	if now.nodes, err = c.members(); err != nil || !now.version.wantsEndpoints {
		return now, err
	}
	now.endpoints, err = c.endpoints.list(key)
	return now, err
}

// endpointsChanged queues a Service whose load balancer has endpoints as members.
func (c *Controller) endpointsChanged(key types.NamespacedName) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.served[key]
	if last == nil || !last.wantsEndpoints {
		return
	}
	last.endpointsVersion++
	c.moved.AddAfter(key, last.nextUpdate().Sub(now))
}

// routeChanged queues all Services whose load balancers have endpoints as members: only these
// depend on the routes to pods.
func (c *Controller) routeChanged() {
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.served))
	c.mu.Unlock()
	for _, key := range keys {
		c.endpointsChanged(key)
	}
}

// callEnsure calls the provider.
func (c *Controller) callEnsure(
	ctx context.Context, service *v1.Service, with input,
) (*v1.LoadBalancerStatus, error) {
	service = service.DeepCopy()
	if balancer, ok := c.Cloud.(members.EndpointBalancer); ok && with.version.wantsEndpoints {
		return balancer.EnsureEndpointLoadBalancer(ctx, c.ClusterName, service, with.nodes,
			with.endpoints)
	}
	return c.Cloud.EnsureLoadBalancer(ctx, c.ClusterName, service, with.nodes)
}

// callUpdate calls the provider.
func (c *Controller) callUpdate(ctx context.Context, service *v1.Service, with input) error {
	service = service.DeepCopy()
	if balancer, ok := c.Cloud.(members.EndpointBalancer); ok && with.version.wantsEndpoints {
		return balancer.UpdateEndpointLoadBalancer(ctx, c.ClusterName, service, with.nodes,
			with.endpoints)
	}
	return c.Cloud.UpdateLoadBalancer(ctx, c.ClusterName, service, with.nodes)
}
