package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// collector receives spans on loopback.
type collector struct {
	mu    sync.Mutex
	names []string
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var data tracepb.TracesData
	body, err := io.ReadAll(req.Body)
	if err != nil || proto.Unmarshal(body, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range data.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.names = append(c.names, span.Name)
			}
		}
	}
}

// The last spans are sent at the end: a batch waits longer than the test.
func TestTracing_Endpoint_ReceivesTheSpansOfTheProgram(t *testing.T) {
	var received collector
	server := httptest.NewServer(&received)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
	w := newWorld(t)
	if err := w.cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
		t.Fatal(err)
	}
	p := w.launch(t)
	ccmtest.CreateNode(t, w.client, ccmtest.TaintedNode("node-1"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(w.client, "node-1"))
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	received.mu.Lock()
	defer received.mu.Unlock()
	for _, want := range []string{
		"sync Node", "InstancesV2.InstanceMetadata", "PATCH nodes",
	} {
		if !slices.Contains(received.names, want) {
			t.Errorf("there is no span %q in %q", want, received.names)
		}
	}
}

func TestTracingErrors_Repeated_AreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		handler := newTracingErrors(funcr.New(
			func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
		for range 3 {
			handler.Handle(errors.New("refused"))
			time.Sleep(4 * time.Minute)
		}
		handler.Handle(errors.New("busy"))
		if len(logged) != 2 {
			t.Errorf("want a line for each error in 10 minutes, got %q", logged)
		}
		handler.Handle(errors.New("refused"))
		if len(logged) != 3 || !strings.Contains(logged[2], "refused") {
			t.Errorf("want a line again after 10 minutes, got %q", logged)
		}
	})
}

func TestTracing_WrongVariable_IsAWarning(t *testing.T) {
	for name, c := range map[string]struct {
		variable, value, want string
	}{
		"exporter": {"OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER=zipkin is not supported"},
		"sampler":  {"OTEL_TRACES_SAMPLER", "sometimes", "unsupported sampler: sometimes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(c.variable, c.value)
			p := launch(t, "--master=http://127.0.0.1:1")
			p.awaitAnswer("/livez", http.StatusOK)
			p.Signal(syscall.SIGTERM)
			if code := p.Wait(); code != 0 {
				t.Errorf("exit code %d after SIGTERM, want 0", code)
			}
			if log := p.Output.String(); strings.Count(log, c.want) != 1 {
				t.Errorf("want one line with %q in the log:\n%s", c.want, log)
			}
		})
	}
}
