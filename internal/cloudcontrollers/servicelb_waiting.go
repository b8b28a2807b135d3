package cloudcontrollers

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// deletionPatience is how long a deletion that the cloud has not finished is waited for, before
// that is an error.
const deletionPatience = time.Minute

// waitingBalancers are the load balancers that upstream gets: an answer that only asks to call
// again is kept from it.
//
// To upstream such an EnsureLoadBalancer is cloudprovider.ImplementedElsewhere: it has nothing more
// to do, and says nothing. The call is repeated here, and with any other answer the Service goes
// back to upstream's queue.
//
// They are safe for concurrent use.
type waitingBalancers struct {
	cloudprovider.LoadBalancer
	services corelisters.ServiceLister
	// passes limits the calls for Services, updates those for nodes: as with upstream, neither
	// waits for the other.
	passes, updates slots
	// queue puts a Service into upstream's queue. It is upstream's own handler of the informer's
	// events.
	queue cache.ResourceEventHandler

	mu    sync.Mutex
	waits map[types.NamespacedName]*wait
	// closed: no wait begins any more.
	closed bool
	alive  sync.WaitGroup
}

// wait is a Service whose load balancer the cloud has not finished. It ends by an answer, or by
// end.
type wait struct {
	// stop is closed to have no further call made.
	stop chan struct{}
	// done is closed when no call is under way, and none will be made.
	done chan struct{}
	// failure is the answer that has ended the wait. It is read when done is closed. Nil: upstream
	// asks for itself.
	failure error
}

func newWaitingBalancers(cloud cloudprovider.LoadBalancer, services corelisters.ServiceLister, concurrent int) *waitingBalancers {
	return &waitingBalancers{
		LoadBalancer: cloud, services: services, waits: map[types.NamespacedName]*wait{},
		passes: make(slots, concurrent), updates: make(slots, concurrent),
	}
}

// close waits for the end of the waits, whose contexts have ended.
func (b *waitingBalancers) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.alive.Wait()
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. Upstream never calls it for a Service
// twice at a time, so neither is it here.
func (b *waitingBalancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	if failure := b.end(service); failure != nil {
		return nil, failure
	}
	status, err := b.ensure(ctx, cluster, service, nodes)
	if retry, ok := errors.AsType[*api.RetryError](err); ok && b.begin(ctx, cluster, service, nodes, retry.RetryAfter()) {
		return nil, cloudprovider.ImplementedElsewhere
	}
	return status, err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. After an error upstream has the load
// balancer ensured, too.
func (b *waitingBalancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) error {
	err := b.updates.call(ctx, func() error { return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes) })
	if isRetry(err) {
		b.queue.OnAdd(service, false)
		return cloudprovider.ImplementedElsewhere
	}
	return err
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. Upstream calls it before a deletion, which
// it treats as done if there is no load balancer.
func (b *waitingBalancers) GetLoadBalancer(ctx context.Context, cluster string, service *v1.Service) (status *v1.LoadBalancerStatus, exists bool, err error) {
	get := func() error {
		status, exists, err = b.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
		return err
	}
	if wantsLoadBalancer(service) {
		// An update has failed. Upstream only wants to know whether that matters.
		err = b.updates.call(ctx, get)
		return status, exists, err
	}
	_ = b.end(service)
	err = b.patiently(ctx, get)
	return status, exists, err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b *waitingBalancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *v1.Service) error {
	_ = b.end(service)
	return b.patiently(ctx, func() error { return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service) })
}

func (b *waitingBalancers) ensure(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) (status *v1.LoadBalancerStatus, err error) {
	err = b.passes.call(ctx, func() error {
		status, err = b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
		return err
	})
	return status, err
}

// patiently repeats a call until it has an answer.
func (b *waitingBalancers) patiently(ctx context.Context, do func() error) error {
	end := time.Now().Add(deletionPatience)
	for {
		err := b.passes.call(ctx, do)
		retry, ok := errors.AsType[*api.RetryError](err)
		if !ok || time.Now().Add(retry.RetryAfter()).After(end) || !pause(ctx, nil, retry.RetryAfter()) {
			return err
		}
	}
}

// begin has EnsureLoadBalancer repeated. It returns false if the term is about to end.
func (b *waitingBalancers) begin(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node, after time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || ctx.Err() != nil {
		return false
	}
	w := &wait{stop: make(chan struct{}), done: make(chan struct{})}
	b.waits[keyOf(service)] = w
	b.alive.Go(func() {
		again := func(service *v1.Service) error {
			_, err := b.ensure(ctx, cluster, service, nodes)
			return err
		}
		b.repeat(ctx, w, service, after, again)
		close(w.done)
		select {
		case <-w.stop:
			// Upstream is at it.
		default:
			b.queue.OnAdd(service, false)
		}
	})
	return true
}

// repeat makes the call again and again until it has an answer, or the Service has changed so that
// it must not be made.
func (b *waitingBalancers) repeat(ctx context.Context, w *wait, service *v1.Service, after time.Duration, again func(*v1.Service) error) {
	for pause(ctx, w.stop, after) {
		now, err := b.services.Services(service.Namespace).Get(service.Name)
		if err != nil || now.UID != service.UID || !wantsLoadBalancer(now) {
			// Upstream finds out what has become of it.
			return
		}
		err = again(now.DeepCopy())
		retry, ok := errors.AsType[*api.RetryError](err)
		if !ok {
			w.failure = err
			return
		}
		after = retry.RetryAfter()
	}
}

// end has no further call made for a Service that waits, and returns when none is under way. It
// returns the failure by which the wait has ended, unless upstream knows it already.
func (b *waitingBalancers) end(service *v1.Service) (failure error) {
	b.mu.Lock()
	w := b.waits[keyOf(service)]
	delete(b.waits, keyOf(service))
	b.mu.Unlock()
	if w == nil {
		return nil
	}
	close(w.stop)
	<-w.done
	return w.failure
}

// slots have something in them for each call that is under way.
type slots chan struct{}

// call makes a call when there is a slot for it.
func (s slots) call(ctx context.Context, do func() error) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s }()
	return do()
}

// pause returns false if ctx ends or stop is closed meanwhile.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}
	return false
}

// isRetry tells whether the cloud only asks to call again.
func isRetry(err error) bool {
	_, ok := errors.AsType[*api.RetryError](err)
	return ok
}

func wantsLoadBalancer(service *v1.Service) bool {
	return service.Spec.Type == v1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil
}

func keyOf(service *v1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// waitingCloud is the cloud that upstream gets.
type waitingCloud struct {
	cloudprovider.Interface
	balancers *waitingBalancers
}

// LoadBalancer implements cloudprovider.Interface.
func (c waitingCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancers, true }

// waitingServices finds the way into upstream's queue: the handler that upstream registers for
// Services.
type waitingServices struct {
	coreinformers.ServiceInformer
	balancers *waitingBalancers
}

// Informer implements coreinformers.ServiceInformer.
func (s waitingServices) Informer() cache.SharedIndexInformer {
	return waitingInformer{s.ServiceInformer.Informer(), s.balancers}
}

type waitingInformer struct {
	cache.SharedIndexInformer
	balancers *waitingBalancers
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i waitingInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	i.balancers.queue = handler
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
}
