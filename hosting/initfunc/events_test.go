package initfunc

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

func TestRecorder_KindOfItsScheme_IsReferenced(t *testing.T) {
	scheme := runtime.NewScheme()
	// The kind is not in client-go's scheme. Its Go type does not matter.
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{
		Group: "example.test", Version: "v1",
		Kind: "Gadget",
	}, &corev1.Node{})
	events := &recorded{}
	b := &broadcaster{recorder: func(string) record.EventRecorder { return events }}
	b.NewRecorder(scheme, corev1.EventSource{Component: "ipam"}).
		Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "g"}}, corev1.EventTypeNormal,
			"Made", "100% done")
	if len(events.objects) != 1 {
		t.Fatalf("%d events, want one", len(events.objects))
	}
	about, ok := events.objects[0].(*corev1.ObjectReference)
	if !ok || about.Kind != "Gadget" || about.APIVersion != "example.test/v1" || about.Name != "g" {
		t.Errorf("the event is about %#v, want Gadget g", events.objects[0])
	}
}

func TestBroadcaster_Watchers_GetEventsUntilShutdown(t *testing.T) {
	events := &recorded{}
	b := &broadcaster{recorder: func(string) record.EventRecorder { return events }}
	r := b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "ipam"})
	about := &corev1.ObjectReference{Kind: "Node", Name: "a", APIVersion: "v1"}
	r.Event(about, corev1.EventTypeNormal, "Unseen", "")
	b.StartRecordingToSink(nil).Stop()
	b.StartStructuredLogging(klog.Level(10)).Stop()

	seen := make(chan *corev1.Event, 1)
	b.StartEventWatcher(func(e *corev1.Event) { seen <- e })
	r.Eventf(about, corev1.EventTypeWarning, "Seen", "%d of %d", 1, 2)
	if e := <-seen; e.Reason != "Seen" || e.Message != "1 of 2" || e.Source.Component != "ipam" ||
		e.InvolvedObject.Name != "a" {
		t.Errorf("the watcher received %+v", e)
	}
	b.Shutdown()
	r.Event(about, corev1.EventTypeNormal, "Late", "")
	b.StartLogging(t.Logf).Stop()
	b.Shutdown()
	if want := []string{"Unseen", "Seen", "Late"}; len(events.reasons) != 3 ||
		events.reasons[2] != want[2] {
		t.Errorf("the term has the events %v, want %v", events.reasons, want)
	}
}
