package cloudcontrollers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// scriptedCloud returns the next answer to each call, after a second. Further calls succeed.
type scriptedCloud struct {
	mu      sync.Mutex
	answers []error
	calls   []string
	running atomic.Int32
	most    int32
}

const callDuration = time.Second

func (s *scriptedCloud) answer(method string, service *v1.Service) (err error) {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	s.mu.Lock()
	s.most = max(s.most, n)
	s.calls = append(s.calls, method+" "+service.ResourceVersion)
	if len(s.answers) > 0 {
		err, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	time.Sleep(callDuration)
	return err
}

func (s *scriptedCloud) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// concurrent is the highest number of calls in flight at the same time.
func (s *scriptedCloud) concurrent() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *scriptedCloud) GetLoadBalancerName(context.Context, string, *v1.Service) string {
	return ""
}

func (s *scriptedCloud) GetLoadBalancer(
	_ context.Context, _ string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	err := s.answer("get", service)
	return &v1.LoadBalancerStatus{}, err == nil, err
}

func (s *scriptedCloud) EnsureLoadBalancer(
	_ context.Context, _ string, service *v1.Service, _ []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return &v1.LoadBalancerStatus{}, s.answer("ensure", service)
}

func (s *scriptedCloud) UpdateLoadBalancer(
	_ context.Context, _ string, service *v1.Service, _ []*v1.Node,
) error {
	return s.answer("update", service)
}

func (s *scriptedCloud) EnsureLoadBalancerDeleted(
	_ context.Context, _ string, service *v1.Service,
) error {
	return s.answer("delete", service)
}

// queue replaces upstream's queue.
type queue struct {
	mu    sync.Mutex
	added []string
}

func (q *queue) OnAdd(object any, _ bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.added = append(q.added, object.(*v1.Service).Name)
}
func (q *queue) OnUpdate(any, any) {}
func (q *queue) OnDelete(any)      {}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.added)
}

// harness holds the load balancers that upstream gets, with their cloud and upstream's queue.
type harness struct {
	*retryingBalancers
	t       *testing.T
	ctx     context.Context
	cloud   *scriptedCloud
	queue   *queue
	indexer cache.Indexer
}

// runTest runs a test with a fake clock. No call may be in flight at its end.
func runTest(t *testing.T, answers []error, test func(*harness)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		b := &harness{
			t: t, ctx: ctx, cloud: &scriptedCloud{answers: answers}, queue: &queue{},
			indexer: indexer,
		}
		b.retryingBalancers = newRetryingBalancers(b.cloud, corelisters.NewServiceLister(indexer),
			2)
		b.retryingBalancers.queue = b.queue
		b.store(web("1"))
		test(b)
		cancel()
		b.close()
		if n := b.cloud.running.Load(); n > 0 {
			t.Errorf("%d calls are in flight after the end", n)
		}
	})
}

func web(version string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "one",
			ResourceVersion: version,
		},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
	}
}

func (b *harness) store(service *v1.Service) {
	b.t.Helper()
	if err := b.indexer.Update(service); err != nil {
		b.t.Fatal(err)
	}
}

func (b *harness) ensure(service *v1.Service) error {
	_, err := b.EnsureLoadBalancer(b.ctx, "", service, nil)
	return err
}

// want checks the calls so far, and how often the Service was queued.
func (b *harness) want(queued int, calls ...string) {
	b.t.Helper()
	synctest.Wait()
	if got := b.cloud.seen(); !slices.Equal(got, calls) {
		b.t.Errorf("at %s the cloud got the calls %q, want %q", b.elapsed(), got, calls)
	}
	if got := b.queue.length(); got != queued {
		b.t.Errorf("the Service was queued %d times, want %d", got, queued)
	}
}

func (b *harness) elapsed() string { return time.Now().Format("04:05") }

func retryIn(d time.Duration) error {
	return fmt.Errorf("load balancer a1b2: %w", api.NewRetryError("provisioning", d))
}

func wantsRetry(err error) bool {
	_, ok := retryAfter(err)
	return ok
}

var errBroken = errors.New("quota exceeded")

func TestEnsure_CloudHasNotFinished_IsRepeatedWithoutUpstream(t *testing.T) {
	runTest(t, []error{retryIn(5 * time.Second), retryIn(time.Second)}, func(b *harness) {
		//nolint:errorlint // upstream compares so
		if err := b.ensure(web("1")); err != cloudprovider.ImplementedElsewhere {
			t.Fatalf("upstream got %v", err)
		}
		b.want(0, "ensure 1")
		b.store(web("2"))
		time.Sleep(5 * time.Second)
		b.want(0, "ensure 1", "ensure 2")
		time.Sleep(time.Minute)
		b.want(1, "ensure 1", "ensure 2", "ensure 2")
		// Upstream calls again itself, for the current address and nodes.
		if err := b.ensure(web("2")); err != nil {
			t.Errorf("upstream got %v", err)
		}
		if len(b.retries) > 0 {
			t.Errorf("retries are left: %v", b.retries)
		}
	})
}

func TestEnsure_RetryFails_UpstreamGetsTheFailureOnce(t *testing.T) {
	runTest(t, []error{retryIn(time.Second), errBroken}, func(b *harness) {
		_ = b.ensure(web("1"))
		time.Sleep(time.Minute)
		b.want(1, "ensure 1", "ensure 1")
		if err := b.ensure(web("1")); !errors.Is(err, errBroken) {
			t.Errorf("upstream got %v", err)
		}
		b.want(1, "ensure 1", "ensure 1")
		if err := b.ensure(web("1")); err != nil {
			t.Errorf("upstream got %v again", err)
		}
	})
}

func TestEnsure_ServiceChangesDuringRetry_UpstreamDecides(t *testing.T) {
	other, retyped, deleted := web("2"), web("2"), web("2")
	other.UID, retyped.Spec.Type, deleted.DeletionTimestamp =
		types.UID("two"), v1.ServiceTypeClusterIP, &metav1.Time{Time: time.Now()}
	for name, now := range map[string]*v1.Service{
		"gone": nil, "replaced by another of the same name": other,
		"of another type": retyped, "being deleted": deleted,
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, []error{retryIn(time.Second)}, func(b *harness) {
				_ = b.ensure(web("1"))
				if now == nil {
					_ = b.indexer.Delete(web("1"))
				} else {
					b.store(now)
				}
				time.Sleep(time.Minute)
				// Without the queue, upstream would not get an event for a deleted Service.
				queued := 0
				if now == nil {
					queued = 1
				}
				b.want(queued, "ensure 1")
			})
		})
	}
}

func TestEnsure_UpstreamCallsDuringRetry_CallsNeverOverlap(t *testing.T) {
	for name, test := range map[string]struct {
		come func(*harness, *v1.Service) error
		want string
	}{
		"the Service has changed": {(*harness).ensure, "ensure 2"},
		"a deletion": {func(b *harness, s *v1.Service) error {
			return b.EnsureLoadBalancerDeleted(b.ctx, "", s)
		}, "delete 2"},
		"before a deletion": {func(b *harness, s *v1.Service) error {
			s.Spec.Type = v1.ServiceTypeClusterIP
			_, _, err := b.GetLoadBalancer(b.ctx, "", s)
			return err
		}, "get 2"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, []error{retryIn(time.Second), retryIn(time.Second)}, func(b *harness) {
				_ = b.ensure(web("1"))
				// The second call is in flight.
				time.Sleep(time.Second + callDuration/2)
				if err := test.come(b, web("2")); err != nil {
					t.Errorf("upstream got %v", err)
				}
				if n := b.cloud.concurrent(); n > 1 {
					t.Errorf("%d calls were in flight at the same time", n)
				}
				time.Sleep(time.Minute)
				b.want(0, "ensure 1", "ensure 1", test.want)
				if len(b.retries) > 0 {
					t.Errorf("retries are left: %v", b.retries)
				}
			})
		})
	}
}

func TestUpdate_CloudHasNotFinished_ServiceIsQueued(t *testing.T) {
	runTest(t, []error{retryIn(time.Second), errBroken, nil}, func(b *harness) {
		for i, want := range []error{cloudprovider.ImplementedElsewhere, errBroken, nil} {
			//nolint:errorlint // upstream compares so
			if err := b.UpdateLoadBalancer(context.TODO(), "", web("1"), nil); err != want {
				t.Errorf("update %d: upstream got %v, want %v", i, err, want)
			}
		}
		b.want(1, "update 1", "update 1", "update 1")
	})
}

// After a failed update upstream only checks whether the load balancer exists.
func TestGet_DuringRetry_RetryContinues(t *testing.T) {
	runTest(t, []error{retryIn(10 * time.Second), retryIn(time.Hour)}, func(b *harness) {
		_ = b.ensure(web("1"))
		if _, _, err := b.GetLoadBalancer(context.TODO(), "", web("1")); !wantsRetry(err) {
			t.Errorf("upstream got %v", err)
		}
		time.Sleep(time.Minute)
		b.want(1, "ensure 1", "get 1", "ensure 1")
	})
}

// Upstream checks whether the load balancer of a deleted Service exists, and deletes it.
func TestDelete_CloudHasNotFinished_IsRepeatedForAMinute(t *testing.T) {
	deleted := web("1")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, call := range map[string]func(*harness) error{
		"get": func(b *harness) error {
			_, _, err := b.GetLoadBalancer(b.ctx, "", deleted)
			return err
		},
		"delete": func(b *harness) error {
			return b.EnsureLoadBalancerDeleted(b.ctx, "", deleted)
		},
	} {
		runTest(t, slices.Repeat([]error{retryIn(9 * time.Second)}, 7), func(b *harness) {
			begin := time.Now()
			err := call(b)
			if waited := time.Since(begin); !wantsRetry(err) ||
				waited < deletionTimeout-10*time.Second ||
				waited > deletionTimeout+callDuration {
				t.Errorf("%s: after %s upstream got %v", name, waited, err)
			}
			if err := call(b); err != nil {
				t.Errorf("%s: upstream got %v", name, err)
			}
			if n := len(b.cloud.seen()); n != 8 {
				t.Errorf("%s: the cloud got %d calls", name, n)
			}
		})
	}
}

func TestEnsure_ManyServices_CallsInFlightAreLimited(t *testing.T) {
	runTest(t, slices.Repeat([]error{retryIn(time.Second)}, 50), func(b *harness) {
		var all sync.WaitGroup
		for i := range 20 {
			service := web("1")
			service.Name = fmt.Sprint("web-", i)
			b.store(service)
			all.Go(func() { _ = b.ensure(service) })
		}
		all.Wait()
		time.Sleep(time.Hour)
		if calls, most, queued := len(
			b.cloud.seen()), b.cloud.concurrent(), b.queue.length(); calls != 70 || most != 2 ||
			queued != 20 {
			t.Errorf(
				"%d calls, %d in flight at once, %d Services queued; want 70, 2 and 20", calls, most, queued)
		}
	})
}

func TestEnsure_TermEnds_NoFurtherCallIsMade(t *testing.T) {
	runTest(t, slices.Repeat([]error{retryIn(time.Second)}, 9), func(b *harness) {
		ctx, cancel := context.WithCancel(b.ctx)
		b.ctx = ctx
		_ = b.ensure(web("1"))
		cancel()
		b.close()
		if err := b.ensure(web("1")); !errors.Is(err, context.Canceled) && !wantsRetry(err) {
			t.Errorf("after the end upstream got %v", err)
		}
		if err := b.EnsureLoadBalancerDeleted(ctx, "", web("1")); !errors.Is(err,
			context.Canceled) && !wantsRetry(err) {
			t.Errorf("after the end upstream got %v", err)
		}
		if n := len(b.cloud.seen()); n > 3 {
			t.Errorf("the cloud got %d calls", n)
		}
	})
}
