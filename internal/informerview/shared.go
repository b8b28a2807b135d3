package informerview

import "k8s.io/client-go/informers"

// Shared is the host's factory. Each term has a view of it. Its informers keep running between
// terms, and their recorded errors are kept from one view to the next. It is safe for concurrent
// use.
type Shared struct {
	factory informers.SharedInformerFactory
	stop    <-chan struct{}
	sources *sources
}

// NewShared returns the host's factory for views. Closing stop ends the informers that views
// started because the host had not. stop must stay open for all later terms, because a stopped
// informer can never be started again. A factory starts all its informers or none: starting one for
// a view also starts those that the host has requested and not started. If an informer has not been
// started when a view first requests it, the view's handler of watch errors replaces the host's.
// The host keeps its own handler if it starts the informer first, or sets the handler later.
func NewShared(factory informers.SharedInformerFactory, stop <-chan struct{}) *Shared {
	return &Shared{factory: factory, stop: stop, sources: newSources()}
}

// View returns a view for one term, which [View.Shutdown] ends. Several may exist at the same time.
//
// Resyncs are the host's: a handler gets them as a handler that the host adds itself.
func (s *Shared) View(opts ...Option) *View {
	o := apply(opts)
	return newView(&root{
		factory: s.factory, sources: s.sources, host: true, informersDone: s.stop,
		failing: o.failing,
	}, o)
}
