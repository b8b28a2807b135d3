package controllerruntime

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

// lastingInformers is a factory whose informers run until stop is called. The contexts of Start
// have no effect, so neither a term nor a campaign ends the informers.
type lastingInformers struct {
	informers.SharedInformerFactory
	shared *informerview.Shared
	ctx    context.Context
	cancel context.CancelFunc
}

func newLastingInformers(
	config *rest.Config, options []informers.SharedInformerOption,
) (*lastingInformers, error) {
	clients, err := kubernetes.NewForConfig(
		rest.AddUserAgent(rest.CopyConfig(config), "shared-informers"))
	if err != nil {
		return nil, fmt.Errorf("controllerruntime: client of the informers: %w", err)
	}
	l := &lastingInformers{SharedInformerFactory: informers.NewSharedInformerFactoryWithOptions(
		informerview.ListingClient(clients), 0, options...)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.shared = informerview.NewShared(l, l.ctx.Done())
	return l, nil
}

// Start implements informers.SharedInformerFactory.
func (l *lastingInformers) Start(<-chan struct{}) {
	l.SharedInformerFactory.StartWithContext(l.ctx)
}

// StartWithContext implements informers.SharedInformerFactory.
func (l *lastingInformers) StartWithContext(context.Context) { l.Start(nil) }

func (l *lastingInformers) stop() {
	l.cancel()
	l.Shutdown()
}

// view returns the informers of one campaign, whose handlers end with it.
func (l *lastingInformers) view() *informerview.View { return l.shared.View() }

// sharedCache returns options with which a manager's cache uses the shared informers.
func (m *trackedManager) sharedCache(o cache.Options) cache.Options {
	// The cache has its own watches if the host's options filter or change the objects.
	if o.NewInformer != nil || o.DefaultNamespaces != nil || o.DefaultLabelSelector != nil ||
		o.DefaultFieldSelector != nil || o.DefaultTransform != nil ||
		o.DefaultWatchErrorHandler != nil {
		return o
	}
	special := map[reflect.Type]bool{}
	for obj := range o.ByObject {
		special[reflect.TypeOf(obj)] = true
	}
	o.NewInformer = func(
		lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration,
		indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if !special[reflect.TypeOf(obj)] {
			if informer := m.shared(obj); informer != nil {
				return campaignInformer{informer}
			}
		}
		return toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)
	}
	return o
}

// shared returns the shared informer of obj's kind, or nil for a kind that is not in client-go.
func (m *trackedManager) shared(obj runtime.Object) toolscache.SharedIndexInformer {
	if _, ok := obj.(runtime.Unstructured); ok {
		return nil // the shared informer holds typed objects
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	generic, err := m.view.ForResource(resource)
	if err != nil {
		return nil
	}
	return generic.Informer()
}

// campaignInformer is a shared informer in the cache of a manager. The cache sets a transform,
// which is nil here. A running informer would refuse that.
type campaignInformer struct{ toolscache.SharedIndexInformer }

// SetTransform implements cache.SharedIndexInformer.
func (campaignInformer) SetTransform(toolscache.TransformFunc) error { return nil }
