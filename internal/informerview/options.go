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

// WithClock is the clock of the view's own resyncs; the real one by default. Scopes have that of their view.
func WithClock(c clock.Clock) Option { return func(o *options) { o.clock = c } }

// WithPanicHandler is told of panics in event handlers, which then go on with the next notification; it must return soon and may be
// called concurrently. Without it a panic ends the process, as in client-go.
func WithPanicHandler(f func(error)) Option { return func(o *options) { o.panicked = f } }
