package informerview

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/rescue"
)

// registration is an event handler of a view. It stands between the informer and the handler: what it passes on it passes one by one, and
// nothing when it has been removed or its view is over.
type registration struct {
	informer *informer
	handler  cache.ResourceEventHandler
	// period is that of the view's own resync; 0 for none.
	period time.Duration
	// handle is the informer's.
	handle cache.ResourceEventHandlerRegistration

	once    sync.Once
	removed chan struct{}

	// turn holds an element while the handler is told something. It is a lock; as a channel, testing/synctest sees who waits for it.
	turn chan struct{}
	// known is what the handler has been told of last, kept for the view's resync.
	known map[cache.ObjectName]any
}

func newRegistration(i *informer, handler cache.ResourceEventHandler, period time.Duration) *registration {
	return &registration{
		informer: i, handler: handler, period: period,
		removed: make(chan struct{}), turn: make(chan struct{}, 1), known: map[cache.ObjectName]any{},
	}
}

// String keeps client-go from printing what is inside, which changes meanwhile.
func (r *registration) String() string { return fmt.Sprintf("for %s", r.informer.source.name) }

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return r.handle.HasSynced() }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.handle.HasSyncedChecker() }

// ShutdownChan is what cache.ShutDownEventHandler waits for.
func (r *registration) ShutdownChan() <-chan struct{} {
	if h, ok := r.handle.(interface{ ShutdownChan() <-chan struct{} }); ok {
		return h.ShutdownChan()
	}
	return r.removed
}

// OnAdd implements cache.ResourceEventHandler.
func (r *registration) OnAdd(obj any, isInInitialList bool) {
	r.tell(func() {
		r.learn(obj)
		r.handler.OnAdd(obj, isInInitialList)
	})
}

// OnUpdate implements cache.ResourceEventHandler.
func (r *registration) OnUpdate(before, after any) {
	r.tell(func() {
		r.learn(after)
		r.handler.OnUpdate(before, after)
	})
}

// OnDelete implements cache.ResourceEventHandler.
func (r *registration) OnDelete(obj any) {
	r.tell(func() {
		if name, err := nameOfDeleted(obj); err == nil {
			delete(r.known, name)
		}
		r.handler.OnDelete(obj)
	})
}

func (r *registration) learn(obj any) {
	if r.period == 0 {
		return
	}
	if name, err := cache.ObjectToName(obj); err == nil {
		r.known[name] = obj
	}
}

// nameOfDeleted is the name of an object, or of one whose deletion was missed and which is known by its key alone.
func nameOfDeleted(obj any) (cache.ObjectName, error) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return cache.ParseObjectName(unknown.Key)
	}
	return cache.ObjectToName(obj)
}

// resync tells the handler of all it knows. An object that it is told of or that goes meanwhile is told as it is then.
func (r *registration) resync() {
	for _, name := range r.names() {
		r.tell(func() {
			if obj, ok := r.known[name]; ok {
				r.handler.OnUpdate(obj, obj)
			}
		})
	}
}

func (r *registration) names() []cache.ObjectName {
	defer r.take()()
	names := make([]cache.ObjectName, 0, len(r.known))
	for name := range r.known {
		names = append(names, name)
	}
	return names
}

func (r *registration) tell(notification func()) {
	defer r.take()()
	if r.over() {
		return
	}
	report := r.informer.view.panicked
	if report == nil {
		notification()
		return
	}
	_ = rescue.Call(func() error {
		notification()
		return nil
	}, func(value any) error {
		report(fmt.Errorf("panic in an event handler of %s: %v", r.informer.source.name, value))
		return nil
	})
}

// take waits until the handler is not being told anything, and lets nobody else tell it anything until the returned function is called.
func (r *registration) take() (end func()) {
	r.turn <- struct{}{}
	return func() { <-r.turn }
}

func (r *registration) over() bool { return closed(r.removed) || closed(r.informer.view.done) }

// remove lets no further notification begin. It does not wait for one that is under way: the handler may remove itself.
func (r *registration) remove() error {
	r.once.Do(func() { close(r.removed) })
	r.informer.view.root.ticker.drop(r)
	return r.informer.source.informer.RemoveEventHandler(r.handle)
}

// gone tells that wait would return at once.
func (r *registration) gone() bool {
	return closed(r.removed) && closed(r.ShutdownChan()) && len(r.turn) == 0
}

// wait returns when the handler is not told anything any more and the informer's goroutines for it have ended.
func (r *registration) wait() {
	end := r.take()
	r.known = nil
	end()
	<-r.ShutdownChan()
}
