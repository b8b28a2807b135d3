package otlp

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a receiver of traces on loopback.
type receiver struct {
	*httptest.Server
	// answers are the statuses of the first requests; then it accepts.
	answers []int

	mu       sync.Mutex
	requests []*http.Request
	spans    []string
	services []string
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	t.Helper()
	r := &receiver{answers: answers}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, req)
	if len(r.answers) > 0 {
		w.WriteHeader(r.answers[0])
		r.answers = r.answers[1:]
		return
	}
	var data tracepb.TracesData
	body, err := io.Reader(req.Body), error(nil)
	if req.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(body)
	}
	var raw []byte
	if err == nil {
		raw, err = io.ReadAll(body)
	}
	if err == nil {
		err = proto.Unmarshal(raw, &data)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, resource := range data.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				r.services = append(r.services, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans = append(r.spans, span.Name)
			}
		}
	}
}

// export exports a span.
func export(t *testing.T) error {
	t.Helper()
	provider, err := Start(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	if provider == nil {
		t.Fatal("no spans are exported")
	}
	_, span := provider.Tracer("test").Start(t.Context(), "sync")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return provider.Shutdown(ctx)
}

func TestStart_Endpoint_ReceivesTheSpans(t *testing.T) {
	for name, c := range map[string]struct {
		want    string
		service string
		env     map[string]string
	}{
		"of all signals": {"/v1/traces", "fxccm", nil},
		"with a path":    {"/otlp/v1/traces", "fxccm", map[string]string{"path": "/otlp"}},
		"of traces": {
			"/traces", "ccm-of-blue",
			map[string]string{
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":    "/traces",
				"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
				"OTEL_SERVICE_NAME":                     "ccm-of-blue",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL+c.env["path"])
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b, tenant=blue")
			for variable, value := range c.env {
				if strings.HasSuffix(variable, "ENDPOINT") {
					value = r.URL + value
				}
				if variable != "path" {
					t.Setenv(variable, value)
				}
			}
			if err := export(t); err != nil {
				t.Fatal(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.requests) != 1 || r.requests[0].URL.Path != c.want {
				t.Fatalf("%d requests, the first one for %v; want one for %s", len(r.requests),
					r.requests, c.want)
			}
			header := r.requests[0].Header
			if header.Get("Api-Key") != "a b" || header.Get("Tenant") != "blue" ||
				header.Get("Content-Type") != "application/x-protobuf" {
				t.Errorf("the headers are %v", header)
			}
			if strings.Join(r.spans, " ") != "sync" || strings.Join(r.services, " ") != c.service {
				t.Errorf("it received the spans %q of %q", r.spans, r.services)
			}
		})
	}
}

func TestStart_ReceiverIsBusy_GetsTheSpansAgain(t *testing.T) {
	r := newReceiver(t, http.StatusServiceUnavailable)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	if err := export(t); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) != 2 || len(r.spans) != 1 {
		t.Errorf("%d requests and %d spans, want 2 and 1", len(r.requests), len(r.spans))
	}
}

func TestStart_ReceiverRefuses_IsAskedOnce(t *testing.T) {
	r := newReceiver(t, http.StatusUnauthorized)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	_ = export(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) != 1 {
		t.Errorf("%d requests, want 1", len(r.requests))
	}
}

func TestStart_NothingOrOff_StartsNothing(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":       {},
		"none":          {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
		"disabled":      {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
		"other signals": {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range env {
				t.Setenv(variable, value)
			}
			if provider, err := Start(t.Context(), "v1"); provider != nil || err != nil {
				t.Errorf("got %v, %v; want neither", provider, err)
			}
		})
	}
}

func TestStart_WrongVariable_IsAnErrorThatNamesIt(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_TRACES_EXPORTER":                  "zipkin",
		"OTEL_EXPORTER_OTLP_PROTOCOL":           "grpc",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":    "http/json",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":    "user:s3cret@collector:4317",
		"OTEL_EXPORTER_OTLP_HEADERS":            "s3cret",
		"OTEL_EXPORTER_OTLP_TIMEOUT":            "10s",
		"OTEL_EXPORTER_OTLP_COMPRESSION":        "zstd",
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        "/does/not/exist",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/does/not/exist",
		"OTEL_RESOURCE_ATTRIBUTES":              "no-pair",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(variable, value)
			provider, err := Start(t.Context(), "v1")
			if err == nil || provider != nil || !strings.Contains(err.Error(), variable) {
				t.Fatalf("got %v, %v; want an error that names the variable", provider, err)
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has a secret or several lines: %v", err)
			}
		})
	}
}

func TestClient_Printed_HasNoHeader(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	// This is how the SDK logs it.
	if text := fmt.Sprintf("%+v", struct{ Client any }{c}); strings.Contains(text, "s3cret") {
		t.Errorf("it is printed as %s", text)
	}
}

func TestClient_NoReceiver_ErrorHasNoSecretAndNoPort(t *testing.T) {
	var ports []string
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateNew {
				_, port, _ := net.SplitHostPort(conn.RemoteAddr().String())
				ports = append(ports, port)
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		},
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"http://user:s3cret@"+listener.Addr().String()+"/v1/traces?key=s3cret")
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.send(t.Context(), nil)
	_ = server.Close()
	<-served
	if err == nil || len(ports) == 0 {
		t.Fatalf("got %v after %d connections, want an error", err, len(ports))
	}
	for _, secret := range append(ports, "s3cret") {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error has %s: %v", secret, err)
		}
	}
}
