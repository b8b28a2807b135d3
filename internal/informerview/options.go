package informerview

// An Option changes a [View] or one of its scopes.
type Option func(*options)

type options struct {
	panicked func(error)
	failing  failureHandler
}

// A failureHandler is called for a resource, such as nodes, whose lists or watches fail, and with
// nil when they do not any more.
type failureHandler func(resource string, cause error)

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

// WithFailureHandler sets the function that is called when an informer that has synced has not been
// able to list or watch for a minute, with the last error. It is called with nil when the informer
// has had no error for three minutes. The function must return soon and may be called concurrently.
// On a scope it has no effect: all scopes have the informers of their view.
func WithFailureHandler(f func(resource string, cause error)) Option {
	return func(o *options) { o.failing = f }
}
