package informerview

import (
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/rescue"
)

// registration is an event handler between an informer and the handler of a view's caller. It
// delivers notifications one at a time, and none after it was removed or its view has ended.
type registration struct {
	informer *informer
	handler  cache.ResourceEventHandler
	// handle is the informer's registration of this handler.
	handle cache.ResourceEventHandlerRegistration

	once    sync.Once
	removed chan struct{}

	// delivering holds an element while a notification is delivered. It is a lock, made of a
	// channel because testing/synctest recognizes goroutines that wait for a channel.
	delivering chan struct{}
}

func newRegistration(i *informer, handler cache.ResourceEventHandler) *registration {
	return &registration{
		informer: i, handler: handler,
		removed: make(chan struct{}), delivering: make(chan struct{}, 1),
	}
}

// String prevents client-go from printing the fields, which change concurrently.
func (r *registration) String() string { return fmt.Sprintf("for %s", r.informer.source.name) }

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return r.handle.HasSynced() }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.handle.HasSyncedChecker() }

// ShutdownChan returns the channel that cache.ShutDownEventHandler waits for.
func (r *registration) ShutdownChan() <-chan struct{} {
	if h, ok := r.handle.(interface{ ShutdownChan() <-chan struct{} }); ok {
		return h.ShutdownChan()
	}
	return r.removed
}

// OnAdd implements cache.ResourceEventHandler.
func (r *registration) OnAdd(obj any, isInInitialList bool) {
	r.deliver(func() { r.handler.OnAdd(obj, isInInitialList) })
}

// OnUpdate implements cache.ResourceEventHandler.
func (r *registration) OnUpdate(before, after any) {
	r.deliver(func() { r.handler.OnUpdate(before, after) })
}

// OnDelete implements cache.ResourceEventHandler.
func (r *registration) OnDelete(obj any) {
	r.deliver(func() { r.handler.OnDelete(obj) })
}

func (r *registration) deliver(notification func()) {
	defer r.lock()()
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

// lock waits until no notification is being delivered, and prevents new ones until unlock is
// called.
func (r *registration) lock() (unlock func()) {
	r.delivering <- struct{}{}
	return func() { <-r.delivering }
}

func (r *registration) over() bool { return closed(r.removed) || closed(r.informer.view.done) }

// remove prevents further notifications. It does not wait for a notification in flight, because the
// handler may remove itself.
func (r *registration) remove() error {
	r.once.Do(func() { close(r.removed) })
	return r.informer.source.informer.RemoveEventHandler(r.handle)
}

// isRemoved reports whether wait would return at once.
func (r *registration) isRemoved() bool {
	return closed(r.removed) && closed(r.ShutdownChan()) && len(r.delivering) == 0
}

// wait returns when no notification is in flight and the informer's goroutines for the handler have
// ended.
func (r *registration) wait() {
	r.lock()()
	<-r.ShutdownChan()
}
