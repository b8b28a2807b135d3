package controllers

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// waitingEvents sends upstream's events but those of waiting.
type waitingEvents struct {
	corev1client.EventInterface
	waits *waits
}

// CreateWithEventNamespace implements corev1client.EventExpansion. An event that is held back counts as sent.
func (e waitingEvents) CreateWithEventNamespace(event *v1.Event) (*v1.Event, error) {
	return e.CreateWithEventNamespaceWithContext(context.Background(), event)
}

// PatchWithEventNamespace implements corev1client.EventExpansion, for an event that is repeated.
func (e waitingEvents) PatchWithEventNamespace(event *v1.Event, patch []byte) (*v1.Event, error) {
	return e.PatchWithEventNamespaceWithContext(context.Background(), event, patch)
}

// CreateWithEventNamespaceWithContext implements corev1client.EventExpansion.
func (e waitingEvents) CreateWithEventNamespaceWithContext(ctx context.Context, event *v1.Event) (*v1.Event, error) {
	if e.waits.holdsBack(event) {
		return event, nil
	}
	return e.EventInterface.CreateWithEventNamespaceWithContext(ctx, withoutMark(event))
}

// PatchWithEventNamespaceWithContext implements corev1client.EventExpansion. The patch tells of the number and the time alone.
func (e waitingEvents) PatchWithEventNamespaceWithContext(ctx context.Context, event *v1.Event, patch []byte) (*v1.Event, error) {
	if e.waits.holdsBack(event) {
		return event, nil
	}
	return e.EventInterface.PatchWithEventNamespaceWithContext(ctx, event, patch)
}

// Upstream's events that are told in each pass, before the cloud is asked (controllers/service/controller.go).
const (
	ensuringReason    = "EnsuringLoadBalancer"
	deletingReason    = "DeletingLoadBalancer"
	unavailableReason = "UnAvailableLoadBalancer"
)

// holdsBack tells whether the event only says that a Service still waits.
func (w *waits) holdsBack(event *v1.Event) bool {
	if strings.Contains(event.Message, notReady) {
		return true
	}
	about := event.InvolvedObject
	switch event.Reason {
	case ensuringReason:
		return strings.HasPrefix(about.APIVersion, ensureMark)
	case deletingReason:
		return strings.HasPrefix(about.APIVersion, deleteMark)
	case unavailableReason:
		key := types.NamespacedName{Namespace: about.Namespace, Name: about.Name}
		return isMark(about.APIVersion) && !w.isEmpty(key, about.APIVersion)
	}
	return false
}

// withoutMark is the event as it is sent.
func withoutMark(event *v1.Event) *v1.Event {
	if !isMark(event.InvolvedObject.APIVersion) {
		return event
	}
	plain := event.DeepCopy()
	plain.InvolvedObject.APIVersion = v1.SchemeGroupVersion.String()
	return plain
}
