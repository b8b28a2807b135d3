// Package informerview gives a term its shared informers: it records why an informer has not synced
// or fails later, and removes the term's event handlers when the term ends.
//
// A [View] wraps a factory: the term's own, or the host's ([Shared]). A [View.Scope] is a part of a
// view that can be ended alone, such as that of a controller that restarts.
package informerview

import (
	"context"
	"errors"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/fence"
)

// Errors of a view that has ended.
var (
	// ErrTermOver means that [View.Shutdown] has been called. It is the fence's error, so that a
	// controller has one error to check.
	ErrTermOver = fence.ErrClosed
	// ErrScopeOver means that [View.Close] has been called on a scope. The term continues.
	ErrScopeOver = errors.New("this part of the term has ended")
)

// View is a SharedInformerFactory for one term, or for a part of one. When it ends, its handlers
// are removed and get no more notifications. It is safe for concurrent use.
type View struct {
	// The factory is embedded so that View also compiles with a later client-go, which has more
	// groups. Informers of such a group are the factory's: their handlers outlive the term.
	informers.SharedInformerFactory

	root     *root
	parent   *View
	panicked func(error)
	// done is closed when the view ends.
	done chan struct{}
	end  sync.Once

	mu        sync.Mutex
	over      error
	informers map[*source]*informer
	handlers  map[*registration]struct{}
	scopes    map[*View]struct{}
}

// New returns a view of the term's own factory, which is shut down with the view.
func New(factory informers.SharedInformerFactory, opts ...Option) *View {
	o := apply(opts)
	return newView(&root{factory: factory, sources: newSources(), failing: o.failing}, o)
}

func newView(root *root, o options) *View {
	return &View{
		SharedInformerFactory: root.factory,

		root:      root,
		panicked:  o.panicked,
		done:      make(chan struct{}),
		informers: map[*source]*informer{},
		handlers:  map[*registration]struct{}{},
		scopes:    map[*View]struct{}{},
	}
}

// Scope returns a part of the view that can be ended alone, with [View.Close]. Its informers belong
// to the view: they end with the view, whatever context the scope starts them with.
func (v *View) Scope(opts ...Option) *View {
	o := apply(opts)
	if o.panicked == nil {
		o.panicked = v.panicked
	}
	scope := newView(v.root, o)
	scope.parent = v
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over != nil {
		scope.markOver(v.over)
		return scope
	}
	v.scopes[scope] = struct{}{}
	return scope
}

// InformerFor implements informers.SharedInformerFactory.
func (v *View) InformerFor(
	obj runtime.Object, newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	return v.informer(v.root.informerFor(obj, newFunc))
}

// ForResource implements informers.SharedInformerFactory.
func (v *View) ForResource(
	resource schema.GroupVersionResource,
) (informers.GenericInformer, error) {
	source, err := v.root.forResource(resource)
	if err != nil {
		return nil, err
	}
	return &generic{informer: v.informer(source), resource: resource.GroupResource()}, nil
}

// Requested reports whether an informer was requested from the view.
func (v *View) Requested() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.informers) > 0
}

// informer returns the view's one informer of the source.
func (v *View) informer(s *source) *informer {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := v.informers[s]
	if i == nil {
		i = newInformer(v, s)
		v.informers[s] = i
	}
	return i
}

// Start implements informers.SharedInformerFactory, as [View.StartWithContext].
func (v *View) Start(stopCh <-chan struct{}) { v.StartWithContext(wait.ContextForChannel(stopCh)) }

// StartWithContext starts the requested informers that have not been started. It may be called
// again after further requests.
//
// The term's own informers run until ctx ends. Informers that a scope starts run as long as those
// of the view, and start only after the view has started. The term's informers must not end with
// one controller. Informers of the host run until the host stops them.
func (v *View) StartWithContext(ctx context.Context) {
	if v.ended() == nil {
		v.root.start(ctx, v.parent != nil)
	}
}

// Shutdown ends the term: it removes all event handlers and waits for the notifications in flight.
// It also waits for the term's own informers, which the caller must stop; informers of the host
// keep running. On a scope it is [View.Close]. It may be called several times, and not from an
// event handler.
func (v *View) Shutdown() {
	if v.parent != nil {
		v.Close()
		return
	}
	v.finish(ErrTermOver)
	if !v.root.host {
		v.root.factory.Shutdown()
	}
}

// Close removes the event handlers of this part of the term and waits for the notifications in
// flight. The rest of the term continues. It may be called several times, and not from an event
// handler.
func (v *View) Close() {
	if v.parent == nil {
		v.finish(ErrTermOver)
		return
	}
	v.finish(ErrScopeOver)
	v.parent.removeScope(v)
}

// finish ends the view and its scopes.
func (v *View) finish(why error) {
	v.markOver(why)
	v.end.Do(func() {
		if v.parent == nil {
			v.root.endReports()
		}
		scopes, handlers := v.scopesAndHandlers()
		for _, scope := range scopes {
			scope.finish(why)
		}
		for _, r := range handlers {
			// It fails only for a handler of another informer.
			_ = r.remove()
		}
		for _, r := range handlers {
			r.wait()
		}
	})
}

// markOver ends the view and its scopes: they accept no handlers, and no notification starts.
func (v *View) markOver(why error) {
	v.mu.Lock()
	if v.over == nil {
		v.over = why
		close(v.done)
	}
	v.mu.Unlock()
	scopes, _ := v.scopesAndHandlers()
	for _, scope := range scopes {
		scope.markOver(why)
	}
}

func (v *View) scopesAndHandlers() (scopes []*View, handlers []*registration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for scope := range v.scopes {
		scopes = append(scopes, scope)
	}
	for r := range v.handlers {
		handlers = append(handlers, r)
	}
	return scopes, handlers
}

// ended returns why the view has ended, or nil.
func (v *View) ended() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.over
}

// addHandler keeps a handler until the view ends.
func (v *View) addHandler(r *registration) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over != nil {
		return v.over
	}
	// A handler that was running when it was removed is still in the map.
	maps.DeleteFunc(v.handlers, func(r *registration, _ struct{}) bool { return r.isRemoved() })
	v.handlers[r] = struct{}{}
	return nil
}

func (v *View) removeScope(scope *View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.scopes, scope)
}

// typed is the factory for the typed accessors. It requests informers by resource, so that they
// have the namespace and the list options of the factory. The accessors would use those of the
// view, which has none.
type typed struct{ *View }

func (t typed) InformerFor(
	obj runtime.Object, newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	for _, resource := range resourcesOf(obj) {
		if source, err := t.root.forResource(resource); err == nil {
			return t.informer(source)
		}
	}
	return t.View.InformerFor(obj, newFunc)
}

type generic struct {
	informer *informer
	resource schema.GroupResource
}

func (g *generic) Informer() cache.SharedIndexInformer { return g.informer }

func (g *generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
