package informerview

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// root is what the scopes of one view have in common.
type root struct {
	factory informers.SharedInformerFactory
	sources *sources
	ticker  *ticker

	// host: the factory is somebody else's.
	host bool
	// resync is the default period of handlers on a host's informers.
	resync time.Duration

	mu sync.Mutex
	// asked are the informers that the view waits for.
	asked map[*source]struct{}
	// running and lasting: the view has started its own informers, which end with lasting. A host's may be started any time.
	running bool
	lasting <-chan struct{}
}

func (r *root) informerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) *source {
	return r.ask(r.sources.of(r.factory.InformerFor(obj, newFunc), nameOf(obj), reflect.TypeOf(obj)))
}

func (r *root) forResource(resource schema.GroupVersionResource) (*source, error) {
	generic, err := r.factory.ForResource(resource)
	if err != nil {
		return nil, err
	}
	return r.ask(r.sources.of(generic.Informer(), resource.Resource, objectOf(resource))), nil
}

func (r *root) ask(s *source) *source {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[*source]struct{}{}
	}
	r.asked[s] = struct{}{}
	return s
}

func (r *root) askedFor() []*source {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := make([]*source, 0, len(r.asked))
	for s := range r.asked {
		asked = append(asked, s)
	}
	return asked
}

// start starts what has been asked for. The factory alone knows what it has started: an informer that two start at once would panic.
func (r *root) start(ctx context.Context, scoped bool) {
	asked := r.askedFor()
	if r.host {
		if closed(r.lasting) || len(r.unstarted(asked)) == 0 {
			return
		}
		r.factory.StartWithContext(wait.ContextForChannel(r.lasting))
	} else if !r.startOwn(ctx, scoped) {
		return
	}
	for _, s := range asked {
		s.start()
	}
}

func (r *root) startOwn(ctx context.Context, scoped bool) bool {
	lasting, running := r.lifetime(ctx, scoped)
	switch {
	case !running || closed(lasting):
		return false
	case scoped:
		ctx = klog.NewContext(wait.ContextForChannel(lasting), klog.FromContext(ctx))
	}
	r.factory.StartWithContext(ctx)
	return true
}

// lifetime returns what the term's own informers end with: the context that the view was first started with.
func (r *root) lifetime(ctx context.Context, scoped bool) (lasting <-chan struct{}, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !scoped && !r.running {
		r.running, r.lasting = true, ctx.Done()
	}
	return r.lasting, r.running
}

// unstarted returns the sources that nobody has started.
func (r *root) unstarted(sources []*source) []*source {
	ended, end := context.WithCancel(context.Background())
	end()
	// What is asked of a factory with a context that has ended is which informers it has started.
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

// period is how often the view itself resyncs a handler with these options; 0 when it need not.
func (r *root) period(s *source, options cache.HandlerOptions) time.Duration {
	var period time.Duration
	switch {
	case options.ResyncPeriod != nil && (r.host || s.hasStarted()):
		period = *options.ResyncPeriod
	case options.ResyncPeriod == nil && r.host:
		period = r.resync
	}
	if period <= 0 {
		return 0
	}
	return max(period, minimumResync)
}
