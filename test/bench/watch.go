package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// ccmLease is the lease that all candidates campaign for by default.
func ccmLease() types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "cloud-controller-manager"}
}

// A sight is the moment at which a watch on the API server has shown something.
type sight struct {
	done chan struct{}
	at   time.Time
	err  error
}

// wait returns when it has been seen; the error, when it has not, is the cause that the watch's
// context ended with.
func (s *sight) wait() (time.Time, error) {
	<-s.done
	return s.at, s.err
}

// watchFor looks at all objects of a kind, now and whenever one changes, until seen says that this
// is it. It returns when the watch has begun. ctx must end: it ends the watch.
func watchFor[T runtime.Object](
	ctx context.Context, source *cache.ListWatch, seen func(T) bool,
) (*sight, error) {
	list, err := source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("begin a watch: %w", err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("begin a watch: %w", err)
	}
	s := &sight{done: make(chan struct{})}
	if err := meta.EachListItem(list, func(object runtime.Object) error {
		if s.at.IsZero() && seen(object.(T)) {
			s.at = time.Now()
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("begin a watch: %w", err)
	}
	if !s.at.IsZero() {
		close(s.done)
		return s, nil
	}
	go func() {
		defer close(s.done)
		_, err := watchtools.Until(ctx, accessor.GetResourceVersion(), source,
			func(event watch.Event) (bool, error) {
				object, ok := event.Object.(T)
				if !ok || event.Type == watch.Deleted || !seen(object) {
					return false, nil
				}
				s.at = time.Now()
				return true, nil
			})
		if err != nil {
			s.err = err
			if ctx.Err() != nil {
				s.err = context.Cause(ctx)
			}
		}
	}()
	return s, nil
}

// watchLease waits for a state of the lease.
func (c *cluster) watchLease(
	ctx context.Context, seen func(*coordinationv1.Lease) bool,
) (*sight, error) {
	lease := ccmLease()
	return watchFor(ctx,
		cache.NewListWatchFromClient(c.client.CoordinationV1().RESTClient(), "leases",
			lease.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name)), seen)
}

// watchNodes waits until want nodes are initialised, and tells progress how many are.
func (c *cluster) watchNodes(
	ctx context.Context, want int, progress func(done int),
) (*sight, error) {
	source := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "nodes",
		metav1.NamespaceAll, fields.Everything())
	return watchFor(ctx, source, countUntil(want, progress, isInitialised))
}

// watchServices waits until want Services have an address, and tells progress how many have.
func (c *cluster) watchServices(
	ctx context.Context, want int, progress func(done int),
) (*sight, error) {
	source := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "services",
		serviceNamespace, fields.Everything())
	return watchFor(ctx, source, countUntil(want, progress, hasAddress))
}

// watchAllServices waits until want Services of all namespaces have an address. Their names must be
// different.
func (c *cluster) watchAllServices(ctx context.Context, want int) (*sight, error) {
	source := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "services",
		metav1.NamespaceAll, fields.Everything())
	return watchFor(ctx, source, countUntil(want, func(int) {}, hasAddress))
}

// watchNode waits until one node is initialised.
func (c *cluster) watchNode(ctx context.Context, name string) (*sight, error) {
	return watchFor(ctx,
		cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
			fields.OneTermEqualSelector(metav1.ObjectNameField, name)), isInitialised)
}

// countUntil says yes when want different objects are so.
func countUntil[T metav1.Object](want int, progress func(int), isSo func(T) bool) func(T) bool {
	done := map[string]bool{}
	return func(object T) bool {
		if isSo(object) && !done[object.GetName()] {
			done[object.GetName()] = true
			progress(len(done))
		}
		return len(done) == want
	}
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
