package informerview

import (
	"time"

	"k8s.io/client-go/informers"
)

// Shared is a factory that somebody else owns, the host. Views of it come and go with the terms; its informers go on, and what has been
// learnt of them is kept from one view to the next. It is safe for concurrent use.
type Shared struct {
	factory informers.SharedInformerFactory
	stop    <-chan struct{}
	sources *sources
}

// NewShared returns the host's factory for views. Closing stop ends the informers that views had to start because the host had not. It
// must outlast every term that is to come, since a stopped informer can never be started again.
//
// A factory starts all that was asked of it or nothing: starting one informer for a view also starts those that the host has asked for
// and not started. An informer that has not been started when a view first asks for it gets the view's handler of watch errors, in place
// of one that the host has set; the host keeps its own by starting first, or by setting it later.
func NewShared(factory informers.SharedInformerFactory, stop <-chan struct{}) *Shared {
	return &Shared{factory: factory, stop: stop, sources: newSources()}
}

// View returns a view for one term, which [View.Shutdown] ends. Several may exist at the same time.
//
// The period of the host's informers is not known, and cannot be shortened once they run. The view therefore resyncs handlers by itself: each
// period it tells a handler of every object that the handler knows, with OnUpdate. The period is the one that the handler was added with,
// at least a second, or resync if it was added without; 0 means never.
func (s *Shared) View(resync time.Duration, opts ...Option) *View {
	o := apply(opts)
	return newView(&root{
		factory: s.factory, sources: s.sources,
		host: true, lasting: s.stop, resync: resync, ticker: newTicker(o.clock),
	}, o)
}
