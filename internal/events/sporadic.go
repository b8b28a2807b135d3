package events

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Sporadic records events of a component that has few: it keeps a Broadcaster, whose channels take
// 64 KiB, only until an event has been sent. It is safe for concurrent use.
type Sporadic struct {
	client    typedcorev1.EventsGetter
	component string
	sending   sync.WaitGroup
}

// NewSporadic returns a recorder of the named component.
func NewSporadic(client typedcorev1.EventsGetter, component string) *Sporadic {
	return &Sporadic{client: client, component: component}
}

// Eventf records an event and does not wait until it is sent.
func (s *Sporadic) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	b := New(s.client)
	b.Recorder(s.component).Eventf(about, eventType, reason, format, args...)
	s.sending.Go(b.Close)
}

// Wait waits until what was recorded has been sent, a second at most.
func (s *Sporadic) Wait() { s.sending.Wait() }
