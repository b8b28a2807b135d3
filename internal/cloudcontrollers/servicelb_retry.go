package cloudcontrollers

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// deletionTimeout limits how long an unfinished deletion keeps its worker. After that time,
// upstream gets the provider's *api.RetryError.
const deletionTimeout = time.Minute

// retryingBalancers is the cloudprovider.LoadBalancer that upstream gets. It handles every
// *api.RetryError itself, because upstream treats one as a failure.
//
// EnsureLoadBalancer then returns cloudprovider.ImplementedElsewhere to upstream, which does
// nothing more and reports nothing. A goroutine repeats the call. After any other result, the
// Service returns to upstream's queue.
//
// It is safe for concurrent use.
type retryingBalancers struct {
	cloudprovider.LoadBalancer
	services corelisters.ServiceLister
	// serviceCalls limits the calls for Services, nodeCalls those for changes of nodes: as with
	// upstream, neither waits for the other.
	serviceCalls, nodeCalls callLimit
	// queue puts a Service into upstream's queue. It is upstream's own handler of the informer's
	// events.
	queue cache.ResourceEventHandler

	mu      sync.Mutex
	retries map[types.NamespacedName]*retry
	// closed prevents new retries.
	closed     bool
	goroutines sync.WaitGroup
}

// retry repeats EnsureLoadBalancer for one Service until the cloud has finished.
type retry struct {
	// stop is closed to prevent further calls.
	stop chan struct{}
	// done is closed when no call is in flight and none will follow.
	done chan struct{}
	// failure is the error that ended the retry. It is valid when done is closed. Nil: upstream
	// calls the provider itself.
	failure error
}

func newRetryingBalancers(
	cloud cloudprovider.LoadBalancer, services corelisters.ServiceLister, concurrent int,
) *retryingBalancers {
	return &retryingBalancers{
		LoadBalancer: cloud, services: services,
		retries:      map[types.NamespacedName]*retry{},
		serviceCalls: make(callLimit, concurrent), nodeCalls: make(callLimit, concurrent),
	}
}

// close waits for the retries to end. Their contexts must have ended.
func (b *retryingBalancers) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.goroutines.Wait()
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. Upstream never has two calls for one
// Service in flight, so the retry is stopped first.
func (b *retryingBalancers) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	if failure := b.stopRetry(service); failure != nil {
		return nil, failure
	}
	status, err := b.ensure(ctx, cluster, service, nodes)
	if delay, ok := retryAfter(err); ok && b.startRetry(ctx, cluster, service, nodes, delay) {
		return nil, cloudprovider.ImplementedElsewhere
	}
	return status, err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. After an unfinished update the load
// balancer is ensured, as upstream does after a failed update.
func (b *retryingBalancers) UpdateLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) error {
	err := b.nodeCalls.run(ctx, func() error {
		return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes)
	})
	if _, ok := retryAfter(err); ok {
		b.queue.OnAdd(service, false)
		return cloudprovider.ImplementedElsewhere
	}
	return err
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. Upstream calls it before a deletion, which
// is complete if the load balancer does not exist, and after a failed update, which matters only if
// it exists.
func (b *retryingBalancers) GetLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service,
) (status *v1.LoadBalancerStatus, exists bool, err error) {
	get := func() error {
		status, exists, err = b.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
		return err
	}
	if wantsLoadBalancer(service) {
		err = b.nodeCalls.run(ctx, get)
		return status, exists, err
	}
	_ = b.stopRetry(service)
	err = b.runUntilDone(ctx, get)
	return status, exists, err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b *retryingBalancers) EnsureLoadBalancerDeleted(
	ctx context.Context, cluster string, service *v1.Service,
) error {
	_ = b.stopRetry(service)
	return b.runUntilDone(ctx, func() error {
		return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	})
}

func (b *retryingBalancers) ensure(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (status *v1.LoadBalancerStatus, err error) {
	err = b.serviceCalls.run(ctx, func() error {
		status, err = b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
		return err
	})
	return status, err
}

// runUntilDone repeats a call of a deletion until the cloud has finished, at most for
// deletionTimeout.
func (b *retryingBalancers) runUntilDone(ctx context.Context, call func() error) error {
	deadline := time.Now().Add(deletionTimeout)
	for {
		err := b.serviceCalls.run(ctx, call)
		delay, ok := retryAfter(err)
		if !ok || time.Now().Add(delay).After(deadline) || !sleep(ctx, nil, delay) {
			return err
		}
	}
}

// startRetry starts to repeat EnsureLoadBalancer. It returns false if the term is about to end.
func (b *retryingBalancers) startRetry(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node, delay time.Duration,
) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || ctx.Err() != nil {
		return false
	}
	r := &retry{stop: make(chan struct{}), done: make(chan struct{})}
	b.retries[keyOf(service)] = r
	b.goroutines.Go(func() {
		ensure := func(service *v1.Service) error {
			_, err := b.ensure(ctx, cluster, service, nodes)
			return err
		}
		var queue bool
		queue, r.failure = b.retryUntilDone(ctx, r.stop, service, delay, ensure)
		close(r.done)
		select {
		case <-r.stop:
			// Upstream is calling for the Service now.
		default:
			if queue {
				b.queue.OnAdd(service, false)
			}
		}
	})
	return true
}

// retryUntilDone repeats a call until the cloud has finished, or until a change of the Service
// forbids the call. It returns whether the Service has to be queued, and the failure that upstream
// gets then.
//
// The informer reports a change of the Service to upstream. If the Service were queued here as
// well, upstream could look for the finalizer of a deleted Service, and report a failure.
func (b *retryingBalancers) retryUntilDone(
	ctx context.Context, stop <-chan struct{}, service *v1.Service, delay time.Duration,
	call func(*v1.Service) error,
) (queue bool, failure error) {
	for sleep(ctx, stop, delay) {
		current, err := b.services.Services(service.Namespace).Get(service.Name)
		if err != nil {
			return true, nil
		}
		if current.UID != service.UID || !wantsLoadBalancer(current) {
			return false, nil
		}
		err = call(current.DeepCopy())
		var unfinished bool
		if delay, unfinished = retryAfter(err); !unfinished {
			return true, err
		}
	}
	return false, nil
}

// stopRetry ends the retry for a Service, and returns when its call is not in flight. It returns
// the failure that ended the retry, unless upstream has got it already.
func (b *retryingBalancers) stopRetry(service *v1.Service) (failure error) {
	b.mu.Lock()
	r := b.retries[keyOf(service)]
	delete(b.retries, keyOf(service))
	b.mu.Unlock()
	if r == nil {
		return nil
	}
	close(r.stop)
	<-r.done
	return r.failure
}

// callLimit holds an element for each call in flight.
type callLimit chan struct{}

// run makes a call when fewer calls than the limit are in flight.
func (l callLimit) run(ctx context.Context, call func() error) error {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l }()
	return call()
}

// sleep waits for d. It returns false if ctx ends or stop is closed before.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
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

// retryAfter returns the pause in an *api.RetryError, and false for other errors.
func retryAfter(err error) (time.Duration, bool) {
	if unfinished, ok := errors.AsType[*api.RetryError](err); ok {
		return unfinished.RetryAfter(), true
	}
	return 0, false
}

func wantsLoadBalancer(service *v1.Service) bool {
	return service.Spec.Type == v1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil
}

func keyOf(service *v1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// retryingCloud is the cloud that upstream gets.
type retryingCloud struct {
	cloudprovider.Interface
	balancers *retryingBalancers
}

// LoadBalancer implements cloudprovider.Interface.
func (c retryingCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancers, true
}
