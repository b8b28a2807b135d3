package ccm

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// termRecorder drops Warnings when the fence of its term has closed: the close cancels calls in
// flight and refuses new ones, and the next term makes them. The context of a controller ends
// later, so a controller cannot tell such an error from a failure.
type termRecorder struct {
	record.EventRecorder
	isOver func() bool
}

func (r termRecorder) isDropped(eventType string) bool {
	return eventType == corev1.EventTypeWarning && r.isOver()
}

// Event implements record.EventRecorder.
func (r termRecorder) Event(about runtime.Object, eventType, reason, message string) {
	if !r.isDropped(eventType) {
		r.EventRecorder.Event(about, eventType, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (r termRecorder) Eventf(
	about runtime.Object, eventType, reason, format string, args ...any,
) {
	if !r.isDropped(eventType) {
		r.EventRecorder.Eventf(about, eventType, reason, format, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (r termRecorder) AnnotatedEventf(
	about runtime.Object, annotations map[string]string, eventType, reason, format string,
	args ...any,
) {
	if !r.isDropped(eventType) {
		r.EventRecorder.AnnotatedEventf(about, annotations, eventType, reason, format, args...)
	}
}
