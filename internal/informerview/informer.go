package informerview

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// informer is a view's informer of a source. It embeds no informer, so that a new method of a later
// client-go is a compile error here.
type informer struct {
	view    *View
	source  *source
	indexer cache.Indexer
}

func newInformer(v *View, s *source) *informer {
	i := &informer{view: v, source: s}
	i.indexer = &indexer{Indexer: s.informer.GetIndexer(), add: i.AddIndexers}
	return i
}

// AddEventHandler implements cache.SharedInformer.
func (i *informer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.SharedInformer. The handler is removed with the view.
func (i *informer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	if err := i.view.ended(); err != nil {
		return nil, i.refuse(err)
	}
	if i.source.informer.IsStopped() {
		return nil, i.view.root.stopped(i.source)
	}
	r := newRegistration(i, handler)
	handle, err := i.source.informer.AddEventHandlerWithOptions(r, options)
	if err != nil {
		return nil, err
	}
	r.handle = handle
	if err := i.view.addHandler(r); err != nil {
		_ = r.remove() // it fails only for a handler of another informer
		r.wait()
		return nil, i.refuse(err)
	}
	return r, nil
}

func (i *informer) refuse(err error) error {
	return fmt.Errorf("add event handler to informer of %s: %w", i.source.name, err)
}

// RemoveEventHandler implements cache.SharedInformer. It accepts a handler of any view of this
// informer.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	switch {
	case !ok:
		return i.source.informer.RemoveEventHandler(handle)
	case r.informer.source != i.source:
		// As in client-go, removing an unknown handler is not an error.
		return nil
	}
	return r.remove()
}

// AddIndexers implements cache.SharedIndexInformer. After the view has ended, the informer keeps
// the indexer and its function, and a later view may add it again. The function must therefore
// depend only on the object.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	if err := i.view.ended(); err != nil {
		return fmt.Errorf("add indexers to informer of %s: %w", i.source.name, err)
	}
	return i.source.addIndexers(i.view.done, indexers)
}

// GetIndexer implements cache.SharedIndexInformer.
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// SetWatchErrorHandler implements cache.SharedInformer.
func (i *informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(
		func(_ context.Context, r *cache.Reflector, err error) {
			handler(r, err)
		})
}

// SetWatchErrorHandlerWithContext implements cache.SharedInformer. The handler is called until the
// view ends.
func (i *informer) SetWatchErrorHandlerWithContext(
	handler cache.WatchErrorHandlerWithContext,
) error {
	return i.source.informer.SetWatchErrorHandlerWithContext(
		i.source.recordingWatchErrors(func(ctx context.Context, r *cache.Reflector, err error) {
			if closed(i.view.done) {
				cache.DefaultWatchErrorHandler(ctx, r, err)
				return
			}
			handler(ctx, r, err)
		}))
}

// Run implements cache.SharedInformer, as [informer.RunWithContext].
func (i *informer) Run(stopCh <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext implements cache.SharedInformer. The informer is shared. It is started as with
// [View.StartWithContext] of a scope, and continues after RunWithContext has returned, which is
// when ctx or the view ends.
func (i *informer) RunWithContext(ctx context.Context) {
	if i.view.ended() != nil {
		return
	}
	i.view.root.start(ctx, true)
	select {
	case <-ctx.Done():
	case <-i.view.done:
	}
}

// GetStore implements cache.SharedInformer.
func (i *informer) GetStore() cache.Store { return i.source.informer.GetStore() }

// GetController implements cache.SharedInformer.
func (i *informer) GetController() cache.Controller { return i.source.informer.GetController() }

// HasSynced implements cache.SharedInformer.
func (i *informer) HasSynced() bool { return i.source.informer.HasSynced() }

// HasSyncedChecker implements cache.SharedInformer.
func (i *informer) HasSyncedChecker() cache.DoneChecker {
	return i.source.informer.HasSyncedChecker()
}

// LastSyncResourceVersion implements cache.SharedInformer.
func (i *informer) LastSyncResourceVersion() string {
	return i.source.informer.LastSyncResourceVersion()
}

// SetTransform implements cache.SharedInformer. A transform of the host's informer remains after
// the term.
func (i *informer) SetTransform(f cache.TransformFunc) error {
	return i.source.informer.SetTransform(f)
}

// IsStopped implements cache.SharedInformer.
func (i *informer) IsStopped() bool { return i.source.informer.IsStopped() }

// indexer adds indexers through its informer.
type indexer struct {
	cache.Indexer

	add func(cache.Indexers) error
}

func (i *indexer) AddIndexers(indexers cache.Indexers) error { return i.add(indexers) }
