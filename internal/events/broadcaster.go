// Package events records Kubernetes events and waits at its end until they have been sent.
package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/rights"
)

const (
	// flushLimit limits the wait for events that the API server does not accept, because a fast
	// hand-over matters more.
	flushLimit = time.Second
	// maxQueued, maxTries and retryPause are client-go's.
	maxQueued  = 1000
	maxTries   = 12
	retryPause = 10 * time.Second
	// maxMessage limits the message of an event, and maxObject the reference to its object, in
	// bytes. The correlator keeps thousands of objects with nine messages of each, and the objects
	// may be those of a hostile API server.
	maxMessage, maxObject = 1024, 1024
	// maxName limits each name in the log, in characters, to that of a Kubernetes object.
	maxName = 253
)

// Broadcaster sends events to the API server, one after the other, with client-go's rules for
// repeated events and for retries. Unlike client-go's broadcaster, Close sends the queued events,
// and at rest it has no goroutine and no channel. It is safe for concurrent use.
type Broadcaster struct {
	client typedcorev1.EventInterface
	log    klog.Logger
	// correlator is used by one goroutine at a time.
	correlator *record.EventCorrelator
	// life ends when no more events are sent.
	life context.Context
	end  context.CancelFunc
	// missing are the rights without which no event is written. Nil: they are not reported.
	missing *rights.Missing

	mu     sync.Mutex
	closed bool
	queue  []*corev1.Event
	// idle is closed when the goroutine that sends has ended. It is nil without such a goroutine.
	idle chan struct{}
}

// New returns a Broadcaster that logs events which are not sent. It must be closed.
func New(client typedcorev1.EventsGetter, log klog.Logger) *Broadcaster {
	b := &Broadcaster{
		client:     client.Events(""),
		log:        log,
		correlator: record.NewEventCorrelator(clock.RealClock{}),
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// ReportTo sets the function that is called for a missing right to write events, and with nil at
// its end. It must be called before the first event.
func (b *Broadcaster) ReportTo(trouble func(subject string, cause error)) {
	b.missing = rights.NewMissing(trouble)
}

// Recorder records events of the named component. Events that are recorded after Close are dropped.
func (b *Broadcaster) Recorder(component string) record.EventRecorderLogger {
	return recorder{b, component, b.log}
}

// Close waits until the recorded events have been sent, at most a second, and ends the Broadcaster.
func (b *Broadcaster) Close() {
	if idle := b.refuse(); idle != nil {
		limit := time.NewTimer(flushLimit)
		defer limit.Stop()
		select {
		case <-idle:
		case <-limit.C:
		}
	}
	b.Shutdown()
}

// Shutdown ends the Broadcaster. Events that have not been sent are dropped.
func (b *Broadcaster) Shutdown() {
	b.end()
	if idle := b.refuse(); idle != nil {
		<-idle
	}
}

// refuse refuses new events. The result is closed when all earlier events have been sent or
// dropped. It is nil if none is queued.
func (b *Broadcaster) refuse() (idle <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.idle
}

// add queues an event. It does not block.
func (b *Broadcaster) add(event *corev1.Event, log klog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
	case len(b.queue) == maxQueued:
		log.Error(nil, "Event dropped, because too many are queued", inLog(event)...)
	default:
		b.queue = append(b.queue, event)
		if b.idle == nil {
			b.idle = make(chan struct{})
			go b.send(b.idle)
		}
	}
}

// send sends the queued events and ends.
func (b *Broadcaster) send(idle chan struct{}) {
	defer close(idle)
	for {
		b.mu.Lock()
		if len(b.queue) == 0 || b.life.Err() != nil {
			b.queue, b.idle = nil, nil
			b.mu.Unlock()
			return
		}
		event := b.queue[0]
		b.queue = b.queue[1:]
		b.mu.Unlock()
		b.sendOne(event)
	}
}

// sendOne sends an event. If the API server does not answer, it retries as client-go does.
func (b *Broadcaster) sendOne(event *corev1.Event) {
	result, err := b.correlator.EventCorrelate(event)
	if err != nil {
		b.log.Error(err, "Event cannot be compared with earlier ones", inLog(event)...)
	}
	if result.Skip {
		return
	}
	for try := 1; ; try++ {
		err := b.post(result)
		if !mayRetry(err) || try == maxTries {
			if err != nil && b.life.Err() == nil {
				b.log.Error(err, "Event dropped, because it cannot be written", inLog(event)...)
			}
			return
		}
		pause := retryPause
		if try == 1 { // so that clients do not retry together
			pause = time.Duration(float64(pause) * rand.Float64())
		}
		select {
		case <-time.After(pause):
		case <-b.life.Done():
			return
		}
	}
}

// post writes an event, or adds to the count of an earlier one. The correlator has recorded the
// event already. It does not get the response: it would keep the texts in it, which may be long.
func (b *Broadcaster) post(result *record.EventCorrelateResult) error {
	if result.Event.Count > 1 {
		_, err := b.client.PatchWithEventNamespaceWithContext(b.life, result.Event, result.Patch)
		b.wrote("permission to patch events", err)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := b.client.CreateWithEventNamespaceWithContext(b.life, result.Event)
	b.wrote("permission to create events", err)
	return err
}

// wrote notes whether a right is missing. A namespace that is being deleted accepts no events.
func (b *Broadcaster) wrote(right string, err error) {
	if b.missing != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		b.missing.Wrote(right, "", err)
	}
}

// mayRetry reports whether the API server may accept the event later, because it has not answered.
func mayRetry(err error) bool {
	_, invalid := errors.AsType[*rest.RequestConstructionError](err)
	_, refused := errors.AsType[*apierrors.StatusError](err)
	return err != nil && !invalid && !refused
}

// recorder makes events.
type recorder struct {
	broadcaster *Broadcaster
	component   string
	log         klog.Logger
}

// Event implements record.EventRecorder.
func (r recorder) Event(about runtime.Object, eventType, reason, message string) {
	r.record(about, nil, eventType, reason, message)
}

// Eventf implements record.EventRecorder.
func (r recorder) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	r.record(about, nil, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r recorder) AnnotatedEventf(
	about runtime.Object, annotations map[string]string, eventType, reason, format string,
	args ...any,
) {
	r.record(about, annotations, eventType, reason, fmt.Sprintf(format, args...))
}

// WithLogger implements record.EventRecorderLogger.
func (r recorder) WithLogger(log klog.Logger) record.EventRecorderLogger {
	r.log = log
	return r
}

func (r recorder) record(
	about runtime.Object, annotations map[string]string, eventType, reason, message string,
) {
	message = short(message)
	object, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		r.log.Error(err, "Event dropped, because its object has no reference", "object",
			fmt.Sprintf("%T", about), "reason", reason, "message", message)
		return
	}
	namespace := object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Annotations: annotations},
		InvolvedObject: *object,
		Type:           eventType, Reason: reason, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:              corev1.EventSource{Component: r.component},
		ReportingController: r.component,
	}
	switch {
	case !recordutil.ValidateEventType(eventType):
		r.log.Error(nil, "Event dropped, because its type is unknown", inLog(event)...)
	case object.Size() > maxObject:
		r.log.Error(nil, "Event dropped, because the reference to its object is too large",
			inLog(event)...)
	default:
		event.Name = recordutil.GenerateEventName(object.Name, now.UnixNano())
		r.broadcaster.add(event, r.log)
	}
}

// short returns a printable message of at most maxMessage.
func short(message string) string {
	const dots = "..."
	message = printable.Text(message, maxMessage-len(dots))
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(dots)], "") + dots
}

// inLog returns an event for a line of the log. Names may be of any length and have any characters.
func inLog(event *corev1.Event) []any {
	about := event.InvolvedObject
	return []any{
		"kind", printable.Text(about.Kind, maxName),
		"namespace", printable.Text(about.Namespace, maxName),
		"name", printable.Text(about.Name, maxName),
		"type", event.Type, "reason", event.Reason, "message", event.Message,
	}
}
