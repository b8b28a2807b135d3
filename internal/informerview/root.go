package informerview

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/klog/v2"
)

// root is shared by a view and its scopes.
type root struct {
	factory informers.SharedInformerFactory
	sources *sources

	// host reports that the factory belongs to the host.
	host bool

	mu sync.Mutex
	// failing gets the failures of the requested informers. It is nil without such a handler, and
	// after the end of the view.
	failing failureHandler
	// requested are the informers that the view waits for.
	requested map[*source]struct{}
	// running reports that the view has started its own informers. They end when informersDone is
	// closed. A host's informers may be started at any time.
	running       bool
	informersDone <-chan struct{}
}

func (r *root) informerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) *source {
	return r.request(r.sources.of(r.factory.InformerFor(obj, newFunc), nameOf(obj),
		reflect.TypeOf(obj)))
}

func (r *root) forResource(resource schema.GroupVersionResource) (*source, error) {
	generic, err := r.factory.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return r.request(r.sources.of(generic.Informer(), resource.Resource, objectOf(resource))), nil
}

func (r *root) request(s *source) *source {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requested == nil {
		r.requested = map[*source]struct{}{}
	}
	if _, known := r.requested[s]; !known && r.failing != nil {
		s.addHandler(r, r.failing)
	}
	r.requested[s] = struct{}{}
	return s
}

// endReports removes the handler of failures.
func (r *root) endReports() {
	r.mu.Lock()
	r.failing = nil
	r.mu.Unlock()
	for _, s := range r.requestedSources() {
		s.removeHandler(r)
	}
}

func (r *root) requestedSources() []*source {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := make([]*source, 0, len(r.requested))
	for s := range r.requested {
		asked = append(asked, s)
	}
	return asked
}

// start starts the requested informers through the factory, which skips those that it has started:
// an informer that is started twice panics.
func (r *root) start(ctx context.Context, scoped bool) {
	asked := r.requestedSources()
	if r.host {
		if closed(r.informersDone) || len(r.unstarted(asked)) == 0 {
			return
		}
		r.factory.StartWithContext(wait.ContextForChannel(r.informersDone))
	} else if !r.startOwn(ctx, scoped) {
		return
	}
	for _, s := range asked {
		s.start()
	}
}

func (r *root) startOwn(ctx context.Context, scoped bool) bool {
	informersDone, running := r.lifetime(ctx, scoped)
	switch {
	case !running || closed(informersDone):
		return false
	case scoped:
		ctx = klog.NewContext(wait.ContextForChannel(informersDone), klog.FromContext(ctx))
	}
	r.factory.StartWithContext(ctx)
	return true
}

// lifetime returns the channel that ends the term's own informers: that of the context with which
// the view was first started.
func (r *root) lifetime(
	ctx context.Context, scoped bool,
) (informersDone <-chan struct{}, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !scoped && !r.running {
		r.running, r.informersDone = true, ctx.Done()
	}
	return r.informersDone, r.running
}

// unstarted returns the sources that have not been started.
func (r *root) unstarted(sources []*source) []*source {
	ended, end := context.WithCancel(context.Background())
	end()
	// With an ended context, the factory returns the informers that it has started at once.
	started := r.factory.WaitForCacheSyncWithContext(ended).Synced
	var left []*source
	for _, s := range sources {
		if _, ok := started[s.object]; ok || s.informer.HasSynced() {
			s.start()
		}
		if !s.hasStarted() {
			left = append(left, s)
		}
	}
	return left
}
