package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/events"
)

// serve returns a client of an API server with the handler.
func serve(t *testing.T, handle http.HandlerFunc) *kubernetes.Clientset {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, Transport: transport,
		QPS: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestClose_EventsAreQueued_AreSent(t *testing.T) {
	const count = 20
	var arrived atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond) // so that most are still queued when Close is called
		var event corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil || event.Reason != "TermEnds" {
			t.Errorf("unexpected event %+v, %v", event, err)
		}
		arrived.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(event)
	})
	b := events.New(client.CoreV1())
	for i := range count {
		node := &corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("n%d", i)}
		b.Recorder("test").Event(node, corev1.EventTypeNormal, "TermEnds", "the term ends")
	}
	b.Close()
	if got := arrived.Load(); got != count {
		t.Errorf("%d events arrived before Close returned, want %d", got, count)
	}
}

func TestRecorder_EventsAreSent_LeaveNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	var arrived atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var event corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil ||
			event.Message != "it is me" || event.Source.Component != "elector" {
			t.Errorf("unexpected event %+v, %v", event, err)
		}
		arrived.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(event)
	})
	b := events.New(client.CoreV1())
	for i := range 3 {
		b.Recorder("elector").Eventf(
			&corev1.ObjectReference{Kind: "Lease", Name: fmt.Sprint("l", i)},
			corev1.EventTypeNormal, "LeaderElection", "it is %s", "me")
	}
	for arrived.Load() < 3 { // limited by the timeout of the test
		time.Sleep(time.Millisecond)
	}
}

func TestRecorder_AfterClose_DropsEventsAndLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("an event was sent") })
	b := events.New(client.CoreV1())
	b.Close()
	b.Recorder("late").Event(&corev1.ObjectReference{Kind: "Node", Name: "n"},
		corev1.EventTypeNormal, "Late", "")
}

func TestClose_APIServerRefusesEvents_DoesNotWait(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after those of serve
	client := serve(t,
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		})
	b := events.New(client.CoreV1())
	b.Recorder("test").Event(&corev1.ObjectReference{Kind: "Node", Name: "n"},
		corev1.EventTypeNormal, "Lost", "")
	b.Close()
}

// sink replaces an API server.
type sink struct {
	typedcorev1.EventInterface
	take func(ctx context.Context, verb string) error
}

func (s sink) Events(string) typedcorev1.EventInterface { return s }

func (s sink) CreateWithEventNamespaceWithContext(
	ctx context.Context, event *corev1.Event,
) (*corev1.Event, error) {
	return event, s.take(ctx, "create")
}

func (s sink) PatchWithEventNamespaceWithContext(
	ctx context.Context, event *corev1.Event, _ []byte,
) (*corev1.Event, error) {
	return event, s.take(ctx, "patch")
}

func record(b *events.Broadcaster) {
	b.Recorder("test").Event(&corev1.ObjectReference{Kind: "Node", Name: "n"},
		corev1.EventTypeNormal, "Synced", "node is synced")
}

func TestRecorder_EventRepeats_IsCounted(t *testing.T) {
	var verbs []string
	b := events.New(sink{take: func(_ context.Context, verb string) error {
		verbs = append(verbs, verb)
		return nil
	}})
	for range 3 {
		record(b)
	}
	b.Close()
	if want := []string{"create", "patch", "patch"}; !slices.Equal(verbs, want) {
		t.Errorf("requests %v, want %v", verbs, want)
	}
}

func TestRecorder_APIServerDoesNotAnswer_EventIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		b := events.New(sink{take: func(context.Context, string) error {
			if tries++; tries < 3 {
				return errors.New("connection refused")
			}
			return nil
		}})
		defer b.Close()
		record(b)
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries != 3 {
			t.Errorf("%d requests, want 3", tries)
		}
	})
}

func TestShutdown_RequestHangs_IsCanceledAndTheRestIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		b := events.New(sink{take: func(ctx context.Context, _ string) error {
			tries++
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		record(b)
		record(b)
		synctest.Wait()
		b.Shutdown()
		if tries != 1 {
			t.Errorf("%d requests, want 1", tries)
		}
	})
}
