package informerview_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/informerview"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// One handler pauses after each error, by a clock that all bubbles of synctest share.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// host is a program with its own informers, on an API server in memory.
type host struct {
	t       *testing.T
	client  *fake.Clientset
	factory informers.SharedInformerFactory
	shared  *informerview.Shared
	stop    chan struct{}
}

// newHost returns a host that resyncs with the period and has not started its informers. It must be
// called in a bubble of synctest, at whose end the host stops.
func newHost(t *testing.T, resync time.Duration, opts ...informers.SharedInformerOption) *host {
	t.Helper()
	h := &host{t: t, client: fake.NewClientset(), stop: make(chan struct{})}
	h.factory = informers.NewSharedInformerFactoryWithOptions(h.client, resync, opts...)
	h.shared = informerview.NewShared(h.factory, h.stop)
	return h
}

// runningHost returns a host whose informers of nodes and services have synced.
func runningHost(t *testing.T, resync time.Duration) *host {
	t.Helper()
	h := newHost(t, resync)
	h.factory.Core().V1().Nodes().Informer()
	h.factory.Core().V1().Services().Informer()
	h.factory.Start(h.stop)
	h.factory.WaitForCacheSync(h.stop)
	synctest.Wait()
	return h
}

// end stops the host's informers and waits for them.
func (h *host) end() {
	close(h.stop)
	h.factory.Shutdown()
}

func (h *host) createNode(name string) { createNode(h.t, h.client, name) }

func createNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Nodes().Create(context.Background(), node,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settle(t)
}

func (h *host) deleteNode(name string) {
	h.t.Helper()
	if err := h.client.CoreV1().Nodes().Delete(context.Background(), name,
		metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
	settle(h.t)
}

func settle(t *testing.T) {
	t.Helper()
	synctest.Wait()
}

// recorder is an event handler that records its notifications, and whether two arrived at once.
type recorder struct {
	mu     sync.Mutex
	events []string
	inside atomic.Int32
	twice  atomic.Bool
	// hold is called with each event while it is delivered.
	hold func(event string)
}

func (r *recorder) OnAdd(obj any, _ bool) { r.note("add", obj) }

func (r *recorder) OnUpdate(before, after any) {
	if before == after {
		r.note("resync", after)
		return
	}
	r.note("update", after)
}

func (r *recorder) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		r.note("missed-delete", unknown.Obj)
		return
	}
	r.note("delete", obj)
}

func (r *recorder) note(what string, obj any) {
	if r.inside.Add(1) > 1 {
		r.twice.Store(true)
	}
	defer r.inside.Add(-1)
	name, err := cache.ObjectToName(obj)
	if err != nil {
		panic(err)
	}
	event := what + " " + name.String()
	r.mu.Lock()
	r.events = append(r.events, event)
	r.mu.Unlock()
	if r.hold != nil {
		r.hold(event)
	}
}

// take returns the events since the last call, sorted.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	slices.Sort(events)
	return events
}

func (r *recorder) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	settle(t)
	slices.Sort(want)
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("%s: the handler received %q, expected %q", when, got, want)
	}
	if r.twice.Load() {
		t.Errorf("%s: the handler received two notifications at once", when)
	}
}

func add(
	t *testing.T, informer cache.SharedInformer,
	handler cache.ResourceEventHandler, period ...time.Duration,
) cache.ResourceEventHandlerRegistration {
	t.Helper()
	var (
		handle cache.ResourceEventHandlerRegistration
		err    error
	)
	if len(period) > 0 {
		handle, err = informer.AddEventHandlerWithResyncPeriod(handler, period[0])
	} else {
		handle, err = informer.AddEventHandler(handler)
	}
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// goroutines counts the goroutines that run the function, such as cache.(*processorListener).run.
func goroutines(function string) int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	count := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, function+"(") {
			count++
		}
	}
	return count
}

// listening is the goroutine that client-go has for each event handler.
const listening = "cache.(*processorListener).run"

func expectGoroutines(t *testing.T, when, function string, want int) {
	t.Helper()
	settle(t)
	if got := goroutines(function); got != want {
		t.Errorf("%s: %d goroutines of %s, expected %d", when, got, function, want)
	}
}

func expectError(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, expected one with %q", what, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %q, expected one with %q", what, err, part)
		}
	}
}

func nodes(t *testing.T, names ...string) []*corev1.Node {
	t.Helper()
	result := make([]*corev1.Node, 0, len(names))
	for _, name := range names {
		result = append(result, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return result
}

func eventsOf(what string, names ...string) []string {
	events := make([]string, 0, len(names))
	for _, name := range names {
		events = append(events, fmt.Sprintf("%s %s", what, name))
	}
	return events
}
