package initfunc

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

// broadcaster adapts the term's recorder to CompletedConfig.EventBroadcaster. The term sends the
// recorded events until the end of its drain. A broadcaster of client-go, which the first watcher
// creates, serves watchers. It is safe for concurrent use.
type broadcaster struct {
	// recorder returns the term's recorder for the named component.
	recorder func(component string) record.EventRecorder

	mu       sync.Mutex
	watched  record.EventBroadcaster
	shutDown bool
}

var _ record.EventBroadcaster = (*broadcaster)(nil)

// NewRecorder implements record.EventBroadcaster. It ignores the source's Host.
func (b *broadcaster) NewRecorder(
	scheme *runtime.Scheme, source corev1.EventSource,
) record.EventRecorderLogger {
	return &recorder{
		broadcaster: b, scheme: scheme, source: source,
		term: b.recorder(source.Component),
	}
}

// StartRecordingToSink implements record.EventBroadcaster. It does nothing, because the term sends
// all events.
func (b *broadcaster) StartRecordingToSink(record.EventSink) watch.Interface {
	return watch.NewEmptyWatch()
}

// StartEventWatcher implements record.EventBroadcaster.
func (b *broadcaster) StartEventWatcher(handle func(*corev1.Event)) watch.Interface {
	return b.watch(func(events record.EventBroadcaster) watch.Interface {
		return events.StartEventWatcher(handle)
	})
}

// StartLogging implements record.EventBroadcaster.
func (b *broadcaster) StartLogging(logf func(format string, args ...any)) watch.Interface {
	return b.watch(func(events record.EventBroadcaster) watch.Interface {
		return events.StartLogging(logf)
	})
}

// StartStructuredLogging implements record.EventBroadcaster.
func (b *broadcaster) StartStructuredLogging(verbosity klog.Level) watch.Interface {
	return b.watch(func(events record.EventBroadcaster) watch.Interface {
		return events.StartStructuredLogging(verbosity)
	})
}

func (b *broadcaster) watch(start func(record.EventBroadcaster) watch.Interface) watch.Interface {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shutDown {
		return watch.NewEmptyWatch()
	}
	if b.watched == nil {
		b.watched = record.NewBroadcaster()
	}
	return start(b.watched)
}

// Shutdown implements record.EventBroadcaster. It ends only the watchers.
func (b *broadcaster) Shutdown() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watched != nil && !b.shutDown {
		b.watched.Shutdown()
	}
	b.shutDown = true
}

// forward passes an event to the watchers.
func (b *broadcaster) forward(event func(record.EventBroadcaster)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watched != nil && !b.shutDown {
		event(b.watched) // does not wait for watchers
	}
}

// recorder records with the term's recorder.
type recorder struct {
	broadcaster *broadcaster
	scheme      *runtime.Scheme
	source      corev1.EventSource
	term        record.EventRecorder
}

// Event implements record.EventRecorder.
func (r *recorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.AnnotatedEventf(object, nil, eventtype, reason, "%s", message)
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(
	object runtime.Object, eventtype, reason, messageFmt string, args ...any,
) {
	r.AnnotatedEventf(object, nil, eventtype, reason, messageFmt, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (r *recorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string,
	eventtype, reason, messageFmt string, args ...any,
) {
	message := fmt.Sprintf(messageFmt, args...)
	// The term's recorder accepts only built-in kinds, or a reference. If the object is not in this
	// scheme either, the term's recorder logs an error.
	if known, err := reference.GetReference(r.scheme, object); err == nil {
		object = known
	}
	r.term.AnnotatedEventf(object, annotations, eventtype, reason, "%s", message)
	r.broadcaster.forward(func(events record.EventBroadcaster) {
		events.NewRecorder(r.scheme, r.source).AnnotatedEventf(object, annotations, eventtype,
			reason, "%s", message)
	})
}

// WithLogger implements record.EventRecorderLogger.
func (r *recorder) WithLogger(logger klog.Logger) record.EventRecorderLogger {
	logging, ok := r.term.(record.EventRecorderLogger)
	if !ok {
		return r
	}
	with := *r
	with.term = logging.WithLogger(logger)
	return &with
}
