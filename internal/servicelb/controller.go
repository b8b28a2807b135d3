package servicelb

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/rights"
	"github.com/fxccm/fxccm/internal/tracing"
)

const (
	// firstRetry and lastRetry are upstream's pauses after a failure.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
	// shortestWait is the least time after which an unfinished call is repeated.
	shortestWait = 100 * time.Millisecond
	// updatePause is the least time between two updates of a load balancer: nodes change in bursts.
	updatePause = time.Second
	// endpointsPause is the same for a load balancer whose members are endpoints, which change for
	// minutes during a rollout.
	endpointsPause = 2 * time.Second
	// rewritePause is the time after which what another client has changed is written again. It
	// bounds the requests of two clients that do so.
	rewritePause = 5 * time.Second
	// repeatFailure is the pause between two events about an unchanged failure. The API server
	// deletes events after an hour.
	repeatFailure = 30 * time.Minute
	// maxText is how many characters of an error are kept. Parts of it are the API server's.
	maxText = 4096
)

// Params are the parts of a [Controller].
type Params struct {
	ClusterName string
	Cloud       cloudprovider.LoadBalancer
	Classes     Classes
	// Nodes selects the nodes that may be members. Nil: all.
	Nodes     labels.Selector
	Client    typedcorev1.ServicesGetter
	Informers informers.SharedInformerFactory
	// Endpoints returns informers for EndpointSlices alone. It is called once, when a Service first
	// wants endpoints ([members.EndpointBalancer]). The controller starts the informers, and shuts
	// them down at its end. Nil: all load balancers have nodes as members.
	Endpoints func() (informers.SharedInformerFactory, error)
	Recorder  record.EventRecorder
	// Trouble is called for a missing right to patch Services and for EndpointSlices that cannot be
	// listed, and with nil at its end. Nil: it is not reported.
	Trouble func(subject string, cause error)
	// Syncs is how many calls for Services, and how many updates after changes of nodes, may be in
	// flight at once.
	Syncs int
	// Registry registers the metrics. Nil: they are not registered.
	Registry prometheus.Registerer
}

type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// Controller is the service-lb-controller. It runs once.
type Controller struct {
	Params
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	synced   []cache.InformerSynced
	counts   *counts
	missing  *rights.Missing

	endpoints *endpoints
	// nodesVersion is higher after each change of the nodes that matters.
	nodesVersion atomic.Uint64

	// changed has the Services that may need any call, moved those that may need only an update of
	// their nodes or endpoints. Each has its own workers, so that neither waits for the other's
	// calls.
	changed, moved queue

	mu sync.Mutex
	// served are the Services whose load balancers this run has requested.
	served map[types.NamespacedName]*served
	// failures are the Services that have failed since the last call that succeeded.
	failures map[types.NamespacedName]failure
	// busy are the Services that a worker has, with the queues that have them again afterwards.
	busy map[types.NamespacedName][]queue
}

// served is what the provider was last asked for, for one Service. Only the worker that has the
// Service changes it, except what mu guards.
type served struct {
	// service is an informer's object.
	service *v1.Service
	// has is the version of the nodes and endpoints that the load balancer has.
	has version
	// announced: an event says that the load balancer is being ensured, and none that it is.
	// deleting: an event says that it is being deleted.
	announced, deleting bool
	// asked is the Service of the last call that the provider has not finished. Until repeat, the
	// provider wants no other call for it.
	asked  *v1.Service
	repeat time.Time
	// updated is when the members were last updated. Only the worker writes it, with mu.
	updated time.Time

	// finished is when the provider answered with status; zero if it has not. Guarded by mu.
	finished time.Time
	status   *v1.LoadBalancerStatus
	// nodesMoved is when nodes have changed that the load balancer does not have yet. Guarded by
	// mu.
	nodesMoved time.Time
	// wantsEndpoints: the provider wanted the endpoints. endpointsVersion is higher after each
	// change of them. Guarded by mu.
	wantsEndpoints   bool
	endpointsVersion uint64
}

// failure is what was reported of a Service that fails.
type failure struct {
	// logged is the text of the last line of the log, without IDs.
	logged string
	// recorded is when the events with these texts, without IDs, and with these objects and reasons
	// were last recorded.
	recorded map[string]time.Time
}

// nextUpdate returns the time before which the members are not updated again. mu is held.
func (s *served) nextUpdate() time.Time {
	if s.wantsEndpoints {
		return s.updated.Add(endpointsPause)
	}
	return s.updated.Add(updatePause)
}

// New returns a controller. It registers its handlers with the informers.
func New(p Params) (*Controller, error) {
	if p.Nodes == nil {
		p.Nodes = labels.Everything()
	}
	if p.Trouble == nil {
		p.Trouble = func(string, error) {}
	}
	core := p.Informers.Core().V1()
	newQueue := func(name string) queue {
		return workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](
				firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: name})
	}
	c := &Controller{
		Params: p, services: core.Services().Lister(), nodes: core.Nodes().Lister(),
		counts: newCounts(p.Registry), missing: rights.NewMissing(p.Trouble),
		changed: newQueue("service"), moved: newQueue("node"),
		served: map[types.NamespacedName]*served{}, busy: map[types.NamespacedName][]queue{},
		failures: map[types.NamespacedName]failure{},
	}
	c.endpoints = &endpoints{
		open: p.Endpoints, changed: c.endpointsChanged, trouble: p.Trouble,
	}
	registered, err := core.Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.serviceChanged(nil, object) },
		UpdateFunc: c.serviceChanged,
		DeleteFunc: c.serviceGone,
	})
	if err == nil {
		c.synced = append(c.synced, registered.HasSynced)
		registered, err = core.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { c.nodeChanged(nil, object) },
			UpdateFunc: c.nodeChanged,
			DeleteFunc: func(object any) { c.nodeChanged(object, nil) },
		})
	}
	if err != nil {
		c.shutDown()
		return nil, err
	}
	c.synced = append(c.synced, registered.HasSynced)
	return c, nil
}

func (c *Controller) shutDown() {
	c.changed.ShutDown()
	c.moved.ShutDown()
}

// Run works until ctx ends, and returns when no call is in flight.
func (c *Controller) Run(ctx context.Context) {
	c.endpoints.start = func(f informers.SharedInformerFactory) { f.StartWithContext(ctx) }
	defer c.endpoints.close()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer c.shutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	for range c.Syncs {
		workers.Go(func() { c.work(ctx, c.changed, c.sync) })
		workers.Go(func() { c.work(ctx, c.moved, c.syncNodes) })
	}
	<-ctx.Done()
}

// serviceGone queues a Service that no longer exists if it may have a load balancer.
func (c *Controller) serviceGone(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	service, ok := object.(*v1.Service)
	if !ok {
		return
	}
	key := keyOf(service)
	c.missing.Forget(func(name string) bool { return name == key.String() })
	if c.lastOf(key) != nil {
		c.changed.Add(key)
	}
}

// serviceChanged queues a Service that concerns this controller, or has concerned it.
func (c *Controller) serviceChanged(before, after any) {
	now, ok := after.(*v1.Service)
	if !ok {
		return
	}
	key := keyOf(now)
	last := c.lastOf(key)
	if last == nil && !c.Classes.want(now) && c.Classes.owner(now) == another {
		return
	}
	was, _ := before.(*v1.Service)
	switch {
	case before == after: // a resync
	case was != nil && c.sameCleanUp(was, now):
		// The clean-up has removed the address, or waits for the time of its next call.
	case last == nil, !c.Classes.want(now), !sameRequest(last.service, now):
		c.changed.Add(key)
	case c.isFinished(last) && (c.isReplaced(last, now) || !isClaimed(now)):
		// Another client has changed what this controller has written. The pause also lets the
		// informer see the controller's own patches.
		c.changed.AddAfter(key, rewritePause)
	}
}

// nodeChanged queues all served Services if the change of a node matters to load balancers.
func (c *Controller) nodeChanged(before, after any) {
	if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = gone.Obj
	}
	was, hasWas := before.(*v1.Node)
	is, hasIs := after.(*v1.Node)
	switch {
	case hasWas && hasIs && c.sameMember(was, is):
		if c.isCandidate(is) && !sameRoutes(was, is) {
			c.routeChanged()
		}
		return
	case !hasWas && (!hasIs || !c.isCandidate(is)),
		!hasIs && !c.isCandidate(was):
		return
	}
	c.nodesVersion.Add(1)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, last := range c.served {
		if last.nodesMoved.IsZero() {
			last.nodesMoved = now
		}
		c.moved.AddAfter(key, last.nextUpdate().Sub(now))
	}
}

// work handles the Services of a queue until it is shut down.
func (c *Controller) work(
	ctx context.Context, from queue, sync func(context.Context, types.NamespacedName) error,
) {
	for {
		key, over := from.Get()
		if over || ctx.Err() != nil { // a queue that is shut down still has its Services
			return
		}
		if c.begin(key, from) {
			err := rescue.Panic(func() error {
				c.settle(ctx, key, from, inSpan(ctx, key, sync))
				return nil
			})
			if err != nil {
				c.settle(ctx, key, from, err)
			}
			c.end(key)
		}
		from.Done(key)
	}
}

func inSpan(
	ctx context.Context, key types.NamespacedName,
	sync func(context.Context, types.NamespacedName) error,
) error {
	return tracing.Do(ctx, "sync Service",
		func(ctx context.Context) error { return sync(ctx, key) },
		slog.String(tracing.Namespace, key.Namespace), slog.String(tracing.Service, key.Name))
}

// begin gives a Service to a worker, unless another has it. Then it comes again afterwards.
func (c *Controller) begin(key types.NamespacedName, from queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting, taken := c.busy[key]
	if taken {
		c.busy[key] = append(waiting, from)
		return false
	}
	c.busy[key] = nil
	return true
}

func (c *Controller) end(key types.NamespacedName) {
	c.mu.Lock()
	waiting := c.busy[key]
	delete(c.busy, key)
	c.mu.Unlock()
	for _, q := range waiting {
		q.Add(key)
	}
}

// settle decides when a Service is looked at again, apart from its changes.
func (c *Controller) settle(ctx context.Context, key types.NamespacedName, from queue, err error) {
	wait, unfinished := errors.AsType[*api.RetryError](err)
	switch {
	case err == nil && from == c.moved:
		// A failure of another change keeps its pause.
	case err == nil, ctx.Err() != nil:
		c.changed.Forget(key)
		c.forgetFailure(key)
	case unfinished:
		from.Forget(key)
		from.AddAfter(key, max(wait.RetryAfter(), shortestWait))
	case from == c.moved && c.isFailing(key):
		// The next call is due at the end of the pause, and has been reported.
	default:
		c.changed.AddRateLimited(key)
		if from == c.changed {
			c.moved.Add(key) // an existing load balancer may lack nodes
		}
		if c.mustLog(key, printable.WithoutIDs(printable.Text(err.Error(), maxText))) {
			klog.FromContext(ctx).Error(err, "Load balancer not served; it is tried again",
				"service", key)
		}
	}
}

// isFailing reports whether the Service waits for another call after a failed one.
func (c *Controller) isFailing(key types.NamespacedName) bool {
	return c.changed.NumRequeues(key) > 0
}

// mustLog notes a failure, and reports whether the last line of the log has another text.
func (c *Controller) mustLog(key types.NamespacedName, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.failures[key]
	if last.logged == text {
		return false
	}
	last.logged = text
	c.failures[key] = last
	return true
}

// mustRecord notes a failure, and reports whether no event has the text, or only an old one.
func (c *Controller) mustRecord(key types.NamespacedName, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, now := c.failures[key], time.Now()
	if last.recorded == nil {
		last.recorded = map[string]time.Time{}
		c.failures[key] = last
	}
	maps.DeleteFunc(last.recorded,
		func(_ string, at time.Time) bool { return now.Sub(at) >= repeatFailure })
	if _, recorded := last.recorded[text]; recorded {
		return false
	}
	last.recorded[text] = now
	return true
}

func (c *Controller) forgetFailure(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failures, key)
}

func (c *Controller) lastOf(key types.NamespacedName) *served {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served[key]
}

func keyOf(service *v1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}
