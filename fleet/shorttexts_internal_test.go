package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/fxccm/fxccm/internal/waittest"
)

// A hostile API server sends errors as answers with the status 200, and as events of watches.
func TestLogger_StatusInAnAnswerOrAnEvent_IsShortAndPrintable(t *testing.T) {
	status := func(marker string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest",` +
			`"code":400,"message":"` + marker + `\u001b[31m` + strings.Repeat("x", 100_000) + `"}`
	}
	var lists atomic.Int64
	m := newMetered(t, Limits{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // the client lists instead
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
				`"reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			_, _ = io.WriteString(w, `{"type":"ERROR","object":`+status("in-the-event")+"}\n")
		case lists.Add(1) == 1:
			_, _ = io.WriteString(w, status("in-the-answer"))
		default:
			_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1",`+
				`"metadata":{"resourceVersion":"1"},"items":[]}`)
		}
	})
	client, err := kubernetes.NewForConfig(&rest.Config{Host: m.url, Transport: m})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{Verbosity: 7})
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), withShortTexts(log)))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	running.Go(func() { nodes.RunWithContext(ctx) })

	waittest.Until(t, "both errors are logged", func() bool {
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(lines, "\n")
		return strings.Contains(all, "in-the-answer") && strings.Contains(all, "in-the-event")
	})
	mu.Lock()
	defer mu.Unlock()
	for _, line := range lines {
		if len(line) > 4*maxErrorText || strings.Contains(line, "u001b") ||
			strings.Contains(line, "x1b") {
			t.Errorf("a line of %d bytes: %.300s", len(line), line)
		}
	}
}

func TestLogger_WithShortTexts_NamesTheCaller(t *testing.T) {
	var line string
	log := withShortTexts(funcr.New(func(_, logged string) { line = logged },
		funcr.Options{LogCaller: funcr.All}))
	log.Info("x")
	if !strings.Contains(line, "shorttexts_internal_test.go") {
		t.Errorf("Info: %s", line)
	}
	log.WithName("n").WithValues("k", io.EOF).Error(io.EOF, "x")
	if !strings.Contains(line, "shorttexts_internal_test.go") || !strings.Contains(line, "EOF") {
		t.Errorf("Error: %s", line)
	}
}

// klog writes a text with a line break, and a reference to an object, as they are.
func TestLogger_ValuesAreLongOrUnprintable_AreShortInOneLine(t *testing.T) {
	hostile := "x\n\x1b[2J" + strings.Repeat("x", 1<<20)
	named := metav1.ObjectMeta{Name: hostile}
	for name, value := range map[string]any{
		"string": hostile, "UID": types.UID(hostile), "error": errors.New(hostile),
		"stringer":   &corev1.Service{ObjectMeta: named},
		"reference":  klog.KRef("default", hostile),
		"references": klog.KObjSlice([]*corev1.Node{{ObjectMeta: named}}),
		"key":        types.NamespacedName{Namespace: hostile, Name: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := withShortTexts(textlogger.NewLogger(textlogger.NewConfig(
				textlogger.Output(&out))))
			log.Info("x", "value", value)
			log.WithValues("value", value).Error(errors.New(hostile), hostile)
			if text := out.String(); strings.Contains(text, "\x1b") ||
				strings.Count(text, "\n") != 2 || len(text) > 8*maxErrorText {
				t.Errorf("%d bytes: %.600q", len(text), text)
			}
		})
	}
}

func TestLogger_ValuesOfTheProgram_AreAsTheyWere(t *testing.T) {
	stack := string(debug.Stack())
	var lines []string
	plain := funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{})
	for _, log := range []logr.Logger{plain, withShortTexts(plain)} {
		log.Info("x", "n", 7, "yes", true, "took", time.Second, "at", time.Time{},
			"service", klog.KRef("default", "web"), "stack", stack, "missing", nil)
	}
	if lines[0] != lines[1] {
		t.Errorf("the line is\n%s\nwant\n%s", lines[1], lines[0])
	}
}
