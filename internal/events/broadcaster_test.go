package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"

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
	b := events.New(client.CoreV1(), logr.Discard())
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
	b := events.New(client.CoreV1(), logr.Discard())
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
	b := events.New(client.CoreV1(), logr.Discard())
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
	b := events.New(client.CoreV1(), logr.Discard())
	b.Recorder("test").Event(&corev1.ObjectReference{Kind: "Node", Name: "n"},
		corev1.EventTypeNormal, "Lost", "")
	b.Close()
}

// sink replaces an API server.
type sink struct {
	typedcorev1.EventInterface
	take func(ctx context.Context, verb string) error
	// answer returns the response. Nil: the event as it was sent.
	answer func(*corev1.Event) *corev1.Event
}

func (s sink) Events(string) typedcorev1.EventInterface { return s }

func (s sink) CreateWithEventNamespaceWithContext(
	ctx context.Context, event *corev1.Event,
) (*corev1.Event, error) {
	if s.answer != nil {
		event = s.answer(event)
	}
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
	}}, logr.Discard())
	for range 3 {
		record(b)
	}
	b.Close()
	if want := []string{"create", "patch", "patch"}; !slices.Equal(verbs, want) {
		t.Errorf("requests %v, want %v", verbs, want)
	}
}

func TestRecorder_RightIsMissing_IsReportedUntilItIsThere(t *testing.T) {
	for _, verb := range []string{"create", "patch"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var isGranted atomic.Bool
				troubles := map[string]bool{}
				b := events.New(sink{take: func(_ context.Context, used string) error {
					if used != verb || isGranted.Load() {
						return nil
					}
					return apierrors.NewForbidden(corev1.Resource("events"), "",
						errors.New("no rule"))
				}}, logr.Discard())
				b.ReportTo(func(subject string, cause error) {
					troubles[subject] = cause != nil
				})
				for range 2 {
					record(b)
				}
				synctest.Wait()
				if subject := "permission to " + verb + " events"; !troubles[subject] {
					t.Errorf("reported are %v, want %q", troubles, subject)
				}
				isGranted.Store(true)
				record(b)
				b.Recorder("test").Event(&corev1.ObjectReference{Kind: "Node", Name: "other"},
					corev1.EventTypeNormal, "Synced", "node is synced")
				b.Close()
				for subject, is := range troubles {
					if is {
						t.Errorf("with the right, %q is reported", subject)
					}
				}
			})
		})
	}
}

func TestRecorder_NamespaceIsBeingDeleted_IsNoMissingRight(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("terminating"))
	forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: corev1.NamespaceTerminatingCause},
	}
	b := events.New(sink{take: func(context.Context, string) error { return forbidden }},
		logr.Discard())
	b.ReportTo(func(subject string, cause error) { t.Errorf("%s: %v", subject, cause) })
	record(b)
	b.Close()
}

// growth returns by how many MiB the memory in use has grown during a function.
func growth(f func()) int {
	inUse := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc >> 20)
	}
	before := inUse()
	f()
	return inUse() - before
}

// client-go's correlator keeps texts of thousands of events.
func TestRecorder_TextsOfAHostileAPIServerAreLong_AreNotKept(t *testing.T) {
	const count, most = 500, 64
	long := func(i int) string { return fmt.Sprint(i) + strings.Repeat("x", 1<<20) }
	forbidden := func(context.Context, string) error {
		return apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("RBAC"))
	}
	accepted := func(context.Context, string) error { return nil }
	for name, c := range map[string]struct {
		sink  sink
		event func(i int) (about corev1.ObjectReference, message string)
	}{
		"names": {sink{take: forbidden}, func(i int) (corev1.ObjectReference, string) {
			return corev1.ObjectReference{Kind: "Service", Name: long(i)}, "m"
		}},
		"namespaces": {sink{take: forbidden}, func(i int) (corev1.ObjectReference, string) {
			return corev1.ObjectReference{Kind: "Service", Namespace: long(i), Name: "s"}, "m"
		}},
		"UIDs": {sink{take: forbidden}, func(i int) (corev1.ObjectReference, string) {
			return corev1.ObjectReference{Kind: "Service", UID: types.UID(long(i)), Name: "s"}, "m"
		}},
		"messages": {sink{take: forbidden}, func(i int) (corev1.ObjectReference, string) {
			return corev1.ObjectReference{Kind: "Service", Name: fmt.Sprint("s", i)}, long(i)
		}},
		"responses": {
			sink{take: accepted, answer: func(event *corev1.Event) *corev1.Event {
				answered := event.DeepCopy()
				answered.Message = long(int(event.FirstTimestamp.UnixNano()))
				answered.Name, answered.ResourceVersion = answered.Message, answered.Message
				return answered
			}},
			func(i int) (corev1.ObjectReference, string) {
				return corev1.ObjectReference{Kind: "Service", Name: fmt.Sprint("s", i)}, "m"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := events.New(c.sink, logr.Discard())
			grown := growth(func() {
				for i := range count {
					about, message := c.event(i)
					b.Recorder("test").Event(&about, corev1.EventTypeNormal, "Synced", message)
				}
				b.Close()
			})
			if grown > most {
				t.Errorf("the memory has grown by %d MiB, want %d at most", grown, most)
			}
			runtime.KeepAlive(b)
		})
	}
}

func TestRecorder_MessageIsLongAndUnprintable_IsSentShort(t *testing.T) {
	const most = 1024
	var sent []string
	b := events.New(sink{
		take: func(context.Context, string) error { return nil },
		answer: func(event *corev1.Event) *corev1.Event {
			sent = append(sent, event.Message)
			return event
		},
	}, logr.Discard())
	for _, letter := range []string{"x", "\U0001f642"} { // of one byte and of four
		b.Recorder("test").Event(&corev1.ObjectReference{Kind: "Node", Name: "n"},
			corev1.EventTypeWarning, "Failed", "a\x1b[2J"+strings.Repeat(letter, 1<<20))
	}
	b.Close()
	if len(sent) != 2 {
		t.Fatalf("%d events were sent, want 2", len(sent))
	}
	for _, message := range sent {
		if len(message) > most || !utf8.ValidString(message) ||
			!strings.HasPrefix(message, "a [2J") || !strings.HasSuffix(message, "...") {
			t.Errorf("the message has %d bytes: %.50q", len(message), message)
		}
	}
}

// klog writes a text with a line break as it is, with what a terminal takes for commands.
func TestRecorder_EventIsDropped_LineIsShortAndPrintable(t *testing.T) {
	hostile := "x\n\x1b]0;owned\x07\x1b[2J"
	forbidden := apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("RBAC"))
	for name, c := range map[string]struct {
		kind string
		name string
	}{
		"the API server refuses it": {corev1.EventTypeNormal, hostile},
		"its object has a long name": {
			corev1.EventTypeNormal, hostile + strings.Repeat("x", 1<<20),
		},
		"its type is unknown": {"Strange", hostile + strings.Repeat("x", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))
			b := events.New(sink{take: func(context.Context, string) error { return forbidden }},
				log.WithValues("cluster", "east"))
			b.Recorder("test").Event(&corev1.ObjectReference{Kind: "Service", Name: c.name},
				c.kind, "Ensured", hostile)
			b.Close()
			line := out.String()
			if len(line) > 4<<10 || strings.Count(line, "\n") != 1 ||
				strings.ContainsAny(line, "\x1b\x07") {
				t.Errorf("%d bytes: %.600q", len(line), line)
			}
			for _, part := range []string{`cluster="east"`, `kind="Service"`, `reason="Ensured"`} {
				if !strings.Contains(line, part) {
					t.Errorf("the line has no %s: %.600q", part, line)
				}
			}
		})
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
		}}, logr.Discard())
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
		}}, logr.Discard())
		record(b)
		record(b)
		synctest.Wait()
		b.Shutdown()
		if tries != 1 {
			t.Errorf("%d requests, want 1", tries)
		}
	})
}
