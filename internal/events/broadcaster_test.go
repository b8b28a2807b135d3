package events_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/events"
)

// serve is an API server that takes events, slowly.
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

func TestClose_SendsWhatWasRecorded(t *testing.T) {
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

func TestSporadic_SendsAndLeavesNothingBehind(t *testing.T) {
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
	recorder := events.NewSporadic(client.CoreV1(), "elector")
	for range 3 {
		recorder.Eventf(&corev1.ObjectReference{Kind: "Lease", Name: "l"}, corev1.EventTypeNormal,
			"LeaderElection", "it is %s", "me")
	}
	recorder.Wait()
	if got := arrived.Load(); got != 3 {
		t.Errorf("%d events arrived before Wait returned, want 3", got)
	}
}

func TestRecorder_AfterCloseDropsAndLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("an event was sent") })
	b := events.New(client.CoreV1())
	b.Close()
	b.Recorder("late").Event(&corev1.ObjectReference{Kind: "Node", Name: "n"},
		corev1.EventTypeNormal, "Late", "")
}

func TestClose_DoesNotWaitForAnAPIServerThatRefuses(t *testing.T) {
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
