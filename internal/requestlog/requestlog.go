// Package requestlog keeps the bodies of requests out of the log.
package requestlog

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// MaxVerbosity is the most verbose level at which client-go logs no bodies. It masks the
// credentials in headers at each level. Source: logBody in k8s.io/client-go/rest/request.go.
const MaxVerbosity = 7

// WithoutBodies returns a context for requests whose bodies have secrets: its logger logs nothing
// above [MaxVerbosity].
func WithoutBodies(ctx context.Context) context.Context {
	log := klog.FromContext(ctx)
	return klog.NewContext(ctx, log.WithSink(sink{log.GetSink()}))
}

type sink struct{ logr.LogSink }

func (s sink) Enabled(level int) bool { return level <= MaxVerbosity && s.LogSink.Enabled(level) }

func (s sink) WithValues(keysAndValues ...any) logr.LogSink {
	return sink{s.LogSink.WithValues(keysAndValues...)}
}

func (s sink) WithName(name string) logr.LogSink { return sink{s.LogSink.WithName(name)} }
