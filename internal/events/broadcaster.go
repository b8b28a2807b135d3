// Package events records Kubernetes events and waits at its end until they have been sent.
package events

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// flushLimit bounds the wait for events that the API server does not take: they matter less than a
// hand-over.
const flushLimit = time.Second

// Broadcaster sends events to the API server. Unlike client-go's, which drops what is queued when
// it is shut down, it sends that first. It starts nothing before the first call of Recorder.
// It is safe for concurrent use.
type Broadcaster struct {
	sink *sink

	mu          sync.Mutex
	broadcaster record.EventBroadcaster
	closed      bool
}

// New returns a Broadcaster. It must be closed.
func New(client typedcorev1.EventsGetter) *Broadcaster {
	return &Broadcaster{sink: &sink{
		EventSinkImpl: &typedcorev1.EventSinkImpl{Interface: client.Events("")},
		last:          string(uuid.NewUUID()),
		flushed:       make(chan struct{}),
	}}
}

// Recorder records events of the named component. Events that are recorded after Close are dropped.
func (b *Broadcaster) Recorder(component string) record.EventRecorderLogger {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broadcaster == nil {
		b.broadcaster = record.NewBroadcaster()
		if b.closed {
			b.broadcaster.Shutdown() // no later call would do it
		} else {
			b.broadcaster.StartRecordingToSink(b.sink)
		}
	}
	return b.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// Close waits until what was recorded has been sent, a second at most, and ends the Broadcaster. It
// must be called once.
func (b *Broadcaster) Close() {
	b.mu.Lock()
	broadcaster := b.broadcaster
	b.closed = true
	b.mu.Unlock()
	if broadcaster == nil {
		return
	}
	// Events are sent one after the other, so when this one's turn has come the others have been
	// sent. The sink keeps it.
	mark := &corev1.ObjectReference{Kind: "Flush", Name: b.sink.last}
	b.Recorder("").Event(mark, corev1.EventTypeNormal, "Flush", "")
	limit := time.NewTimer(flushLimit)
	defer limit.Stop()
	select {
	case <-b.sink.flushed:
	case <-limit.C:
	}
	broadcaster.Shutdown()
}

// sink sends events, but for the last one.
type sink struct {
	*typedcorev1.EventSinkImpl
	last    string
	flushed chan struct{}
}

// Create implements record.EventSink.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.InvolvedObject.Name == s.last {
		close(s.flushed)
		return event, nil
	}
	return s.EventSinkImpl.Create(event)
}
