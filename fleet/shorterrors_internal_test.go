package fleet

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

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
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), withShortErrors(log)))
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

func TestLogger_WithShortErrors_NamesTheCaller(t *testing.T) {
	var line string
	log := withShortErrors(funcr.New(func(_, logged string) { line = logged },
		funcr.Options{LogCaller: funcr.All}))
	log.Info("x")
	if !strings.Contains(line, "shorterrors_internal_test.go") {
		t.Errorf("Info: %s", line)
	}
	log.WithName("n").WithValues("k", io.EOF).Error(io.EOF, "x")
	if !strings.Contains(line, "shorterrors_internal_test.go") || !strings.Contains(line, "EOF") {
		t.Errorf("Error: %s", line)
	}
}
