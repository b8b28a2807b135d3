package informerview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

const (
	// failureTolerance is how long lists and watches of an informer may fail without a report. The
	// API server may restart, or the network may fail for a moment.
	failureTolerance = time.Minute
	// recovery is the time without a failure after which an informer works. After a failure,
	// client-go pauses for at most a minute, and the API server answers within a minute.
	recovery = 3 * time.Minute
)

// sources are the informers of one factory.
type sources struct {
	mu    sync.Mutex
	known map[any]*source
}

func newSources() *sources { return &sources{known: map[any]*source{}} }

// of returns the one source of the informer. An informer is identified by its store, because
// client-go's typed accessors return a new wrapper of the informer with each call.
func (s *sources) of(informer cache.SharedIndexInformer, name string, object reflect.Type) *source {
	var identity any = informer.GetStore()
	if !reflect.ValueOf(identity).Comparable() {
		identity = informer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[identity]; known != nil {
		return known
	}
	added := &source{
		informer: informer, name: name, object: object,
		indexers: map[string]<-chan struct{}{}, handlers: map[*root]failureHandler{},
	}
	added.observe()
	s.known[identity] = added
	return added
}

// source is an informer of a factory, with its state.
type source struct {
	informer cache.SharedIndexInformer
	// name is the resource, such as nodes.
	name string
	// object is the type by which the factory keeps the informer; nil if it is unknown.
	object reflect.Type
	// unobserved reports that the informer was running when it was first requested, so only its
	// owner receives its errors.
	unobserved bool

	mu sync.Mutex
	// started is true when the informer is known to have been started.
	started bool
	// lastError is why the last list or watch failed, and lastFailure is when.
	lastError   error
	lastFailure time.Time
	// failingSince is when the first of the consecutive failures was. client-go reports no success,
	// so failures are consecutive unless recovery lies between them.
	failingSince time.Time
	// recovered reports the end of the failures, recovery after the last one. It is nil before the
	// first report of a failure.
	recovered *time.Timer
	// handlers are the handlers of the views that have requested the informer.
	handlers map[*root]failureHandler
	// indexers holds the indexers that were added through views. Each is in use until its channel
	// is closed.
	indexers map[string]<-chan struct{}
}

// observe records errors of lists and watches, unless the informer is running already.
func (s *source) observe() {
	err := s.informer.SetWatchErrorHandlerWithContext(
		s.recordingWatchErrors(cache.DefaultWatchErrorHandler))
	s.unobserved = err != nil
	s.started = s.unobserved
}

// recordingWatchErrors returns a handler of watch errors that records each error and then calls
// next.
func (s *source) recordingWatchErrors(
	next cache.WatchErrorHandlerWithContext,
) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		s.failed(err)
		next(ctx, r, err)
	}
}

func (s *source) failed(err error) {
	// A watch that the server closes is not a failure.
	if errors.Is(err, io.EOF) {
		return
	}
	if s.noteFailure(err) {
		s.report(err)
	}
}

// noteFailure reports whether the informer has synced and has failed for long.
func (s *source) noteFailure(err error) (isLong bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.lastFailure) >= recovery {
		s.failingSince = now
	}
	s.lastError, s.lastFailure = err, now
	if now.Sub(s.failingSince) < failureTolerance || !s.informer.HasSynced() {
		return false
	}
	if s.recovered == nil {
		s.recovered = time.AfterFunc(recovery, func() { s.report(nil) })
	} else {
		s.recovered.Reset(recovery)
	}
	return true
}

// report calls the handlers of the views.
func (s *source) report(cause error) {
	s.mu.Lock()
	handlers := slices.Collect(maps.Values(s.handlers))
	s.mu.Unlock()
	for _, handle := range handlers {
		handle(s.name, cause)
	}
}

func (s *source) addHandler(of *root, handler failureHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[of] = handler
}

func (s *source) removeHandler(of *root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handlers, of)
}

func (s *source) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastError
}

func (s *source) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
}

func (s *source) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// addIndexers adds indexers that are needed until user is closed. Indexers cannot be removed from
// an informer, so an indexer of an ended user already exists.
func (s *source) addIndexers(user <-chan struct{}, indexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := cache.Indexers{}
	for name, index := range indexers {
		if earlier, ours := s.indexers[name]; !ours || !closed(earlier) {
			missing[name] = index
		}
	}
	if len(missing) > 0 || s.informer.IsStopped() {
		if err := s.informer.AddIndexers(missing); err != nil {
			return fmt.Errorf("informer of %s: %w", s.name, err)
		}
	}
	for name := range indexers {
		s.indexers[name] = user
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// resourcesOf returns the resources that may serve objects of this type.
func resourcesOf(obj runtime.Object) []schema.GroupVersionResource {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil
	}
	resources := make([]schema.GroupVersionResource, 0, len(kinds))
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resources = append(resources, plural)
	}
	return resources
}

// objectOf returns the type of the resource's objects. It is nil for a resource that is not in
// client-go.
func objectOf(resource schema.GroupVersionResource) reflect.Type {
	for kind, object := range scheme.Scheme.KnownTypes(resource.GroupVersion()) {
		if plural, _ := meta.UnsafeGuessKindToResource(
			resource.GroupVersion().WithKind(kind)); plural == resource {
			return reflect.PointerTo(object)
		}
	}
	return nil
}

// nameOf names the resource of an object.
func nameOf(obj runtime.Object) string {
	if resources := resourcesOf(obj); len(resources) > 0 {
		return resources[0].Resource
	}
	return strings.ToLower(reflect.TypeOf(obj).Elem().Name()) + "s"
}
