package cloudcontrollers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// withoutEvents is the client of upstream's route controller. It discards upstream's events,
// because [routePasses] records them: upstream's text has the duration of the call, so each attempt
// would be another event.
//
// Upstream's broadcaster remains. It takes 4 goroutines and 100 KiB of each Manager with routes.
type withoutEvents struct{ kubernetes.Interface }

// CoreV1 implements kubernetes.Interface.
func (c withoutEvents) CoreV1() typedcorev1.CoreV1Interface {
	return coreWithoutEvents{c.Interface.CoreV1()}
}

type coreWithoutEvents struct{ typedcorev1.CoreV1Interface }

// Events implements typedcorev1.EventsGetter.
func (c coreWithoutEvents) Events(namespace string) typedcorev1.EventInterface {
	return noEvents{c.CoreV1Interface.Events(namespace)}
}

// noEvents accepts the events of client-go's broadcaster.
type noEvents struct{ typedcorev1.EventInterface }

// CreateWithEventNamespace implements typedcorev1.EventExpansion.
func (noEvents) CreateWithEventNamespace(event *v1.Event) (*v1.Event, error) { return event, nil }

// PatchWithEventNamespace implements typedcorev1.EventExpansion.
func (noEvents) PatchWithEventNamespace(event *v1.Event, _ []byte) (*v1.Event, error) {
	return event, nil
}
