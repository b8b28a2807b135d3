package loadbalancer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Limits of repairs.
const (
	// workers is how many load balancers are repaired at a time.
	workers = 8
	// deepScanBatch is how many load balancers are compared in all fields in a period. Each port of
	// each load balancer costs a request.
	deepScanBatch = 20
	// nodeDebounce is how long nodes must be unchanged: changes come in bursts, and upstream's node
	// sync acts first.
	nodeDebounce = time.Second
	// A failed repair is retried after this pause, which doubles.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
)

// repairs are the reconciles that upstream's service controller does not start. It watches neither
// the cloud, nor of nodes more than their set: not their addresses, their labels (a Service may
// select by them), or that they are about to be removed.
//
// They begin with the first requested reconcile, because fxccm may not act for Services of this
// cluster before.
type repairs struct {
	of    *LoadBalancers
	begun sync.Once
	// ctx ends with the term.
	ctx    context.Context
	cancel context.CancelFunc
	alive  sync.WaitGroup
	queue  workqueue.TypedRateLimitingInterface[repair]
	// moved holds an item when nodes have changed.
	moved chan struct{}

	// turn is the position of the Service with which the next deep repairs begin. Only watch uses
	// it.
	turn int

	mu     sync.Mutex
	closed bool
}

// errOld means that a repair would act on old lists.
var errOld = errors.New("the lists are too old to act on")

// repair is an item of the queue.
type repair struct {
	service types.UID
	// all: the repair is not limited to what depends on nodes.
	all bool
	// deep: all fields of all parts are compared, unless that was done since the last change.
	deep bool
}

func newRepairs(of *LoadBalancers) *repairs {
	r := &repairs{of: of, moved: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[repair](firstRetry, lastRetry),
		// The real clock is used: no behavior depends on these pauses.
		workqueue.TypedRateLimitingQueueConfig[repair]{})
	return r
}

// start begins the repairs, once.
func (r *repairs) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.begun.Do(func() {
		r.alive.Go(r.watch)
		for range workers {
			r.alive.Go(r.work)
		}
	})
}

// endWith ends the repairs when the channel is closed.
func (r *repairs) endWith(stop <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.alive.Go(func() {
		select {
		case <-stop:
			r.cancel()
			r.queue.ShutDown()
		case <-r.ctx.Done():
		}
	})
}

// close ends the repairs and waits for them.
func (r *repairs) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.queue.ShutDown()
	r.alive.Wait()
}

// nodesMoved notes that nodes have changed. It does not block.
func (r *repairs) nodesMoved() {
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// watch queues repairs.
func (r *repairs) watch() {
	every := r.of.config.Defaults.LoadBalancer.DriftPeriod
	// Without a period the timer is not used.
	period := r.of.config.Clock.NewTimer(max(every, nodeDebounce))
	defer period.Stop()
	var due <-chan time.Time
	if every > 0 {
		due = period.C()
	}
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-due:
			period.Reset(every)
			r.ask(true)
		case <-r.moved:
			if !r.pause(nodeDebounce) {
				return
			}
			r.ask(false)
		}
	}
}

// pause returns false if the term ends meanwhile.
func (r *repairs) pause(d time.Duration) bool {
	timer := r.of.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-r.ctx.Done():
		return false
	}
}

func (r *repairs) ask(all bool) {
	uids := slices.Sorted(maps.Keys(r.of.tracked.all()))
	r.turn %= max(1, len(uids)) // Services may have been deleted
	for i, uid := range uids {
		// Each period takes other Services.
		deep := all && (i-r.turn+len(uids))%len(uids) < deepScanBatch
		r.queue.Add(repair{service: uid, all: all, deep: deep})
	}
	if all {
		r.turn += deepScanBatch
	}
}

func (r *repairs) work() {
	for {
		item, over := r.queue.Get()
		if over {
			return
		}
		r.settle(item, rescue.Panic(func() error { return r.do(item) }))
		r.queue.Done(item)
	}
}

func (r *repairs) settle(item repair, err error) {
	var wait *api.RetryError
	switch {
	case err == nil || r.ctx.Err() != nil || errors.Is(err, fence.ErrClosed):
		r.queue.Forget(item)
	case errors.As(err, &wait):
		r.queue.Forget(item)
		r.queue.AddAfter(item, max(wait.RetryAfter(), firstRetry))
	default:
		r.of.config.Logger.Error(err, "Load balancer reconcile failed; retrying", "service",
			r.of.tracked.get(item.service).String())
		r.queue.AddRateLimited(item)
	}
}

// do reconciles, unless the Service no longer exists. If the change of the nodes does not matter,
// the reconcile changes nothing, and reads no contents of the load balancer.
func (r *repairs) do(item repair) error {
	service, cluster, ok := r.of.served(item.service)
	if !ok {
		return nil
	}
	what := request{
		cluster: cluster, service: service,
		mode: mode{create: true, nodes: !item.all, repair: item.all, deep: item.deep},
	}
	if item.all {
		what.age = r.of.config.CheckAge
	}
	status, err := r.of.ensure(r.ctx, what)
	if errors.Is(err, errOld) {
		what.age = 0
		status, err = r.of.ensure(r.ctx, what)
	}
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(*status, service.Status.LoadBalancer) {
		return nil
	}
	return r.of.publish(r.ctx, service, status)
}

// served finds a Service for which upstream's controller has requested a load balancer and not its
// deletion.
func (l *LoadBalancers) served(uid types.UID) (service *v1.Service, cluster string, ok bool) {
	who := l.tracked.get(uid)
	objects := l.objects.Load()
	if !objects.areComplete() || who.name == "" {
		return nil, "", false
	}
	service, err := objects.services.Services(who.namespace).Get(who.name)
	if err != nil || service.UID != uid || !requestsLoadBalancer(service) ||
		!servicehelpers.HasLBFinalizer(service) {
		return nil, "", false
	}
	return service, who.cluster, true
}
