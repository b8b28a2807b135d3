package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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
	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/tracing"
)

// Limits of repairs.
const (
	// workers is how many load balancers are repaired at a time.
	workers = 8
	// deepScanBatch is how many load balancers are compared in all fields in a period. Each port of
	// each load balancer costs a request.
	deepScanBatch = 20
	// A failed repair is retried after this pause, which doubles.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
)

// repairs are the reconciles that the service controller does not start, because it does not watch
// the cloud.
//
// They begin with the first requested reconcile, because fxccm may not act for Services of this
// cluster before.
type repairs struct {
	of    *LoadBalancers
	begun sync.Once
	// ctx ends with the term.
	ctx    context.Context
	cancel context.CancelFunc
	// traced is ctx with the tracer of the first reconcile. start sets it.
	traced context.Context
	alive  sync.WaitGroup
	queue  workqueue.TypedRateLimitingInterface[repair]
	// turn is the position of the Service with which the next deep repairs begin. Only watch uses
	// it.
	turn int

	mu     sync.Mutex
	closed bool
	// failures are the texts of the last errors, without IDs. The log has each once.
	failures map[repair]string
}

// errOld means that a repair would act on old lists.
var errOld = errors.New("the lists are too old to act on")

// errUnverified makes the repairs retry until the servers of all nodes are known.
var errUnverified = errors.New("OpenStack has not shown the servers of all nodes")

// repair is an item of the queue.
type repair struct {
	service types.UID
	// deep: all fields of all parts are compared, unless that was done since the last change.
	deep bool
}

func newRepairs(of *LoadBalancers) *repairs {
	r := &repairs{of: of, failures: map[repair]string{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.traced = r.ctx
	r.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[repair](firstRetry, lastRetry),
		// The real clock is used: no behavior depends on these pauses.
		workqueue.TypedRateLimitingQueueConfig[repair]{})
	return r
}

// start begins the repairs, once. ctx is that of a reconcile.
func (r *repairs) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.begun.Do(func() {
		r.traced = tracing.WithTracerOf(r.ctx, ctx)
		if r.of.config.Defaults.LoadBalancer.DriftPeriod > 0 {
			r.alive.Go(r.watch)
		}
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

// watch queues repairs.
func (r *repairs) watch() {
	every := r.of.config.Defaults.LoadBalancer.DriftPeriod
	period := r.of.config.Clock.NewTimer(every)
	defer period.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-period.C():
			period.Reset(every)
			r.ask()
		}
	}
}

func (r *repairs) ask() {
	uids := slices.Sorted(maps.Keys(r.of.tracked.all()))
	r.turn %= max(1, len(uids)) // Services may have been deleted
	for i, uid := range uids {
		// Each period takes other Services.
		deep := (i-r.turn+len(uids))%len(uids) < deepScanBatch
		r.queue.Add(repair{service: uid, deep: deep})
	}
	r.turn += deepScanBatch
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
	case err == nil, r.isOver(err), r.isRetried(item.service):
		r.queue.Forget(item)
		r.failsWithNew(item, "")
	case errors.As(err, &wait):
		r.queue.Forget(item)
		r.queue.AddAfter(item, max(wait.RetryAfter(), firstRetry))
	case errors.Is(err, errUnverified):
		// Events name the nodes. The fields need not be compared again.
		r.failsWithNew(item, "")
		r.queue.AddRateLimited(repair{service: item.service})
	default:
		if r.failsWithNew(item, printable.WithoutIDs(err.Error())) {
			r.of.config.Logger.Error(err, "Load balancer reconcile failed; retrying", "service",
				r.of.tracked.get(item.service).String())
		}
		r.queue.AddRateLimited(item)
	}
}

// failsWithNew notes the text of an error, "" for none, and reports whether the last one had
// another text.
func (r *repairs) failsWithNew(item repair, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew := r.failures[item] != text
	if text == "" {
		delete(r.failures, item)
	} else {
		r.failures[item] = text
	}
	return isNew
}

// isOver reports whether a repair ended because the term is over, or because the Service no longer
// requests a load balancer.
func (r *repairs) isOver(err error) bool {
	return r.ctx.Err() != nil || errors.Is(err, fence.ErrClosed) || errors.Is(err, errUnwanted)
}

// isRetried reports whether the service controller retries for the Service. A repair does not retry
// beside it.
func (r *repairs) isRetried(service types.UID) bool {
	state := r.of.states.get(service)
	return state != nil && state.isRetried.Load()
}

// do reconciles, unless the Service no longer exists or the service controller retries.
func (r *repairs) do(item repair) error {
	service, cluster, ok := r.of.served(item.service)
	if !ok || r.isRetried(item.service) {
		return nil
	}
	what := request{
		cluster: cluster, service: service,
		mode: mode{create: true, repair: true, deep: item.deep, age: r.of.config.CheckAge},
	}
	err := r.inSpan(service, func(ctx context.Context) error {
		status, err := r.of.ensure(ctx, what)
		if errors.Is(err, errOld) {
			what.age = 0
			status, err = r.of.ensure(ctx, what)
		}
		if err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(*status, service.Status.LoadBalancer) {
			return nil
		}
		return r.of.publish(ctx, service, status)
	})
	if err == nil && r.isUnverified(item.service) {
		return errUnverified
	}
	return err
}

// isUnverified reports whether the load balancer of the Service lacks members whose servers are
// unknown. Nothing else leads to a reconcile when the servers become known.
func (r *repairs) isUnverified(service types.UID) bool {
	state := r.of.states.get(service)
	return state != nil && state.isUnverified.Load()
}

// inSpan calls f in the span of a repair. The span of a repair that is over has not failed.
func (r *repairs) inSpan(service *v1.Service, f func(context.Context) error) error {
	var ended error
	err := tracing.Do(r.traced, "repair Service", func(ctx context.Context) error {
		err := f(ctx)
		if r.isOver(err) {
			ended, err = err, nil
		}
		return err
	}, slog.String(tracing.Namespace, service.Namespace),
		slog.String(tracing.Service, service.Name))
	return cmp.Or(ended, err)
}

// served finds a Service for which the service controller has requested a load balancer and not its
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
