package informerview

// An Option changes a [View] or one of its scopes.
type Option func(*options)

type options struct {
	panicked func(error)
}

func apply(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithPanicHandler sets the function that gets panics of event handlers as errors. The event
// handler continues with the next notification. The function must return soon and may be called
// concurrently. Without it a panic ends the process, as in client-go.
func WithPanicHandler(f func(error)) Option { return func(o *options) { o.panicked = f } }
