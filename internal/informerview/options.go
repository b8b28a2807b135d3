package informerview

import "k8s.io/utils/clock"

// An Option changes a [View] or one of its scopes.
type Option func(*options)

type options struct {
	clock    clock.Clock
	panicked func(error)
}

func apply(opts []Option) options {
	o := options{clock: clock.RealClock{}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithClock sets the clock of the view's own resyncs. The default is the real clock. Scopes have
// the clock of their view.
func WithClock(c clock.Clock) Option { return func(o *options) { o.clock = c } }

// WithPanicHandler sets the function that gets panics of event handlers as errors. The event
// handler continues with the next notification. The function must return soon and may be called
// concurrently. Without it a panic ends the process, as in client-go.
func WithPanicHandler(f func(error)) Option { return func(o *options) { o.panicked = f } }
