package endpoints_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
)

// hopeless is an elector that never wins, and reports why.
type hopeless struct{}

func (hopeless) Elect(ctx context.Context, _ func(context.Context, election.Grant) error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (hopeless) ElectionStatus() election.Status {
	return election.Status{
		Identity: "me", Leader: "another", LastRenewal: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Err: errors.New("update lease kube-system/x: the server is on fire"),
	}
}

func TestStatusz_ElectionFails_ShowsTheStatusAndTheError(t *testing.T) {
	m := newManager(t, func(p *ccm.Params) { p.Elector = hopeless{} })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-m.Done() })
	waittest.Until(t, "the Manager is degraded",
		func() bool { return m.Status().State == status.Degraded })

	w := get(newHandler(m), "/statusz")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("GET /statusz is %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	var page struct {
		status.Manager
		Election struct {
			election.Status
			Error string `json:"error"`
		} `json:"election"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	if page.State != status.Degraded || page.Provider != "empty" || len(page.Controllers) == 0 ||
		!strings.Contains(page.Reason, "on fire") {
		t.Errorf("/statusz differs from Status: %s", w.Body)
	}
	if e := page.Election; e.Identity != "me" || e.Leader != "another" || e.LastRenewal.IsZero() ||
		!strings.Contains(e.Error, "on fire") {
		t.Errorf("/statusz lacks the election: %s", w.Body)
	}
	// A program can read the page as a Status.
	var plain status.Manager
	if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil ||
		plain.Election.Leader != "another" {
		t.Errorf("/statusz does not decode as a status.Manager: %v, %+v", err, plain)
	}
}

func TestStatusz_AcceptHeader_DecidesBetweenJSONAndPage(t *testing.T) {
	h := newHandler(newManager(t, nil))
	for accept, want := range map[string]string{
		"":                                  "application/json",
		"*/*":                               "application/json", // curl, Go, Prometheus
		"application/json":                  "application/json",
		"application/json, text/html;q=0.5": "application/json",
		"image/png":                         "application/json",
		"text/html":                         "text/html; charset=utf-8",
		// Firefox, Chromium and Safari.
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "text/html; charset=utf-8",
	} {
		r := httptest.NewRequest(http.MethodGet, "/statusz", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != want ||
			w.Header().Get("Vary") != "Accept" {
			t.Errorf("Accept: %s is answered with %d %s, want %s", accept, w.Code, got, want)
		}
		csp := w.Header().Get("Content-Security-Policy")
		if strings.HasPrefix(want, "text/html") != strings.HasPrefix(csp, "default-src 'none'; ") {
			t.Errorf("Accept: %s is answered with the policy %q", accept, csp)
		}
	}
}

func TestConfigz_ConfigurationWithAPassword_IsShownWithoutIt(t *testing.T) {
	m := newManager(t, func(p *ccm.Params) {
		p.Config.ClusterName = "blue"
		p.Config.ClientConnection.Master = "https://admin:hunter2@10.0.0.1:6443"
	})
	h := newHandler(m)
	w := get(h, "/configz")
	var page map[string]ccm.Config
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	cfg, ok := page["fxccm.dev"]
	if !ok || len(page) != 1 || cfg.ClusterName != "blue" ||
		cfg.DrainTimeout != m.Config().DrainTimeout {
		t.Errorf("/configz does not show the configuration: %s", w.Body)
	}
	for _, path := range []string{"/configz", "/statusz"} {
		body := get(h, path).Body.String()
		for _, secret := range []string{"hunter2", "a-secret-token"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows a secret: %s", path, body)
			}
		}
	}
	if got := m.Config().ClientConnection.Master; !strings.Contains(got, "hunter2") {
		t.Errorf("the Manager's own configuration was changed: %s", got)
	}
}

func TestConfigz_AddressWithAPassword_ShowsTheRest(t *testing.T) {
	for address, want := range map[string]string{
		"https://10.0.0.1:6443":               "https://10.0.0.1:6443",
		"https://admin:hunter2@10.0.0.1:6443": "https://admin:xxxxx@10.0.0.1:6443",
		"https://admin:hunter2@10.0.0.1:port": "(withheld: it is no valid URL, and has a user)",
	} {
		m := newManager(t, func(p *ccm.Params) { p.Config.ClientConnection.Master = address })
		var page map[string]ccm.Config
		body := get(newHandler(m), "/configz").Body.Bytes()
		if err := json.Unmarshal(body, &page); err != nil {
			t.Fatal(err)
		}
		if got := page["fxccm.dev"].ClientConnection.Master; got != want {
			t.Errorf("the address %s is shown as %s, want %s", address, got, want)
		}
	}
}

func TestConfigz_TwoManagers_EachShowsItsOwn(t *testing.T) {
	blue := newHandler(newManager(t, func(p *ccm.Params) { p.Config.ClusterName = "blue" }))
	green := newHandler(newManager(t, func(p *ccm.Params) { p.Config.ClusterName = "green" }))
	if a, b := get(blue, "/configz").Body.String(),
		get(green, "/configz").Body.String(); !strings.Contains(a, `"blue"`) ||
		!strings.Contains(b, `"green"`) {
		t.Errorf("each page must show its own Manager: %s %s", a, b)
	}
}

func registry(cs ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(cs...)
	return r
}

func TestMetrics_RegistryOfTheHost_IsServedWithUpstreams(t *testing.T) {
	w := &worker{}
	m := newManager(t, nil, w.controller("steady"))
	runReady(t, m)
	mine := prometheus.NewGauge(prometheus.GaugeOpts{Name: "host_answers", Help: "42."})
	mine.Set(42)
	// The host's registry also has metrics of the process, as upstream's has.
	host := registry(mine, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	body := get(newHandler(m, endpoints.WithGatherers(host)), "/metrics")
	if body.Code != http.StatusOK {
		t.Fatalf("GET /metrics is %d %s", body.Code, body.Body)
	}
	text := body.Body.String()
	for _, want := range []string{
		"host_answers 42\n", "\ngo_goroutines ",
		"registered_metrics_total",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	if n := strings.Count(text, "\ngo_goroutines "); n != 1 {
		t.Errorf("/metrics has go_goroutines %d times, want once", n)
	}

	only := get(newHandler(m, endpoints.WithOnlyGatherers(registry(mine))),
		"/metrics").Body.String()
	if !strings.Contains(only, "host_answers 42\n") || strings.Contains(only, "go_goroutines") {
		t.Errorf("WithOnlyGatherers must leave out all others: %s", only)
	}
}

func TestMetrics_RegistryOfTheManager_IsServedOnceByDefault(t *testing.T) {
	const series = "\nfxccm_terms_total{"
	for name, test := range map[string]struct {
		registerer func(*prometheus.Registry) prometheus.Registerer
		opts       func(*prometheus.Registry) []endpoints.Option
		// served is the number of times that the series is on the page.
		served int
		// logs is a part of the only log line, or empty.
		logs string
	}{
		"a registry":                  {registerer: itself, served: 1},
		"a registry that is added":    {registerer: itself, opts: added, served: 1},
		"a wrapped registry":          {registerer: wrapped, logs: "endpoints.WithGatherers"},
		"a wrapped one that is added": {registerer: wrapped, opts: added, served: 1},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			w := &worker{}
			m := newManager(t, func(p *ccm.Params) { p.Registerer = test.registerer(registry) },
				w.controller("steady"))
			runReady(t, m)
			var logged []string
			log := funcr.New(func(_, line string) { logged = append(logged, line) },
				funcr.Options{Verbosity: 9})
			opts := []endpoints.Option{endpoints.WithLogger(log)}
			if test.opts != nil {
				opts = append(opts, test.opts(registry)...)
			}
			text := get(endpoints.NewHandler(m, opts...), "/metrics").Body.String()
			if n := strings.Count(text, series); n != test.served {
				t.Errorf("/metrics has fxccm_terms_total %d times, want %d", n, test.served)
			}
			if test.logs == "" && len(logged) > 0 || test.logs != "" &&
				(len(logged) != 1 || !strings.Contains(logged[0], test.logs)) {
				t.Errorf("logged %q, want %q", logged, test.logs)
			}
		})
	}
}

func TestMetrics_AcceptHeader_IsReadWithinALimit(t *testing.T) {
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;" +
		"encoding=delimited"
	h := newHandler(newManager(t, nil))
	const text = "text/plain; version=0.0.4; charset=utf-8"
	for accept, want := range map[string]struct{ contentType, escaping string }{
		"":                                 {text, "underscores"},
		"*/*":                              {text, "underscores"},
		"text/html,*/*;q=0.8":              {text, "underscores"},
		"text/plain;version=0.0.4;q=0.2":   {text, "underscores"},
		"text/plain;escaping=allow-utf-8":  {text, "allow-utf-8"},
		"text/plain;escaping=x":            {text, "underscores"},
		";;,,q=,text/plain;q*0=1;q*1=x, /": {text, "underscores"},
		protobuf + ";q=0.5,text/plain":     {text, "underscores"},
		// Prometheus, with and without native histograms.
		protobuf + ";q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;" +
			"q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": {protobuf, "underscores"},
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5," + protobuf +
			";q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": {protobuf, "allow-utf-8"},
		// With a parser that has no limit, these would get protocol buffers.
		strings.Repeat("a/b,", 16<<10) + protobuf: {text, "underscores"},
		protobuf + ";q=NaN":                       {text, "underscores"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := strings.ReplaceAll(w.Header().Get("Content-Type"), " ", "")
		expected := strings.ReplaceAll(want.contentType, " ", "") + ";escaping=" + want.escaping
		if w.Code != http.StatusOK || got != expected {
			t.Errorf("Accept: %.80q is answered with %d %s, want %s", accept, w.Code, got, expected)
		}
		if r.Header.Get("Accept") != accept {
			t.Errorf("Accept: %.80q is changed for the caller", accept)
		}
	}
}

func itself(r *prometheus.Registry) prometheus.Registerer { return r }

func wrapped(r *prometheus.Registry) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"cell": "a"}, r)
}

func added(r *prometheus.Registry) []endpoints.Option {
	return []endpoints.Option{endpoints.WithGatherers(r)}
}

func TestProfiles_WithProfiling_AreServed(t *testing.T) {
	m := newManager(t, nil)
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/", "/debug/controllers/x/"} {
		if code := get(newHandler(m), path).Code; code != http.StatusNotFound {
			t.Errorf("without profiling GET %s is %d, want 404", path, code)
		}
	}
	h := newHandler(m, endpoints.WithProfiling(true))
	gzip := []byte{0x1f, 0x8b}
	for path, begin := range map[string][]byte{
		"/debug/pprof/":                    []byte("profile?seconds=30"),
		"/debug/pprof/heap?gc=1":           gzip,
		"/debug/pprof/goroutine?debug=1":   []byte("goroutine profile:"),
		"/debug/pprof/profile?seconds=0.1": gzip,
		"/debug/pprof/trace?seconds=0.1":   []byte("go 1."),
	} {
		if w := get(h, path); w.Code != http.StatusOK || !bytes.HasPrefix(w.Body.Bytes(), begin) {
			t.Errorf("GET %s is %d %.40q, want it to begin with %q", path, w.Code, w.Body, begin)
		}
	}
	for path, code := range map[string]int{
		"/debug/pprof/profile?seconds=soon": http.StatusBadRequest,
		"/debug/pprof/profile?seconds=-1":   http.StatusBadRequest,
		"/debug/pprof/profile?seconds=NaN":  http.StatusBadRequest,
		"/debug/pprof/heap?debug=x":         http.StatusBadRequest,
		"/debug/pprof/heap?seconds=1":       http.StatusBadRequest,
		"/debug/pprof/nothing":              http.StatusNotFound,
		"/debug/pprof/cmdline":              http.StatusNotFound,
	} {
		if w := get(h, path); w.Code != code {
			t.Errorf("GET %s is %d %s, want %d", path, w.Code, w.Body, code)
		}
	}
}

func TestProfiles_CallerDisconnects_RecordingEnds(t *testing.T) {
	h := newHandler(newManager(t, nil), endpoints.WithProfiling(true))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The short recording below may have begun first.
		for code := http.StatusConflict; code == http.StatusConflict; {
			w := httptest.NewRecorder()
			h.ServeHTTP(w,
				httptest.NewRequestWithContext(ctx, http.MethodGet,
					"/debug/pprof/profile?seconds=3600", nil))
			code = w.Code
		}
	}()
	waittest.Until(t, "a second recording is refused", func() bool {
		return get(h, "/debug/pprof/profile?seconds=0.01").Code == http.StatusConflict
	})
	cancel()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatal("the recording continues without a caller")
	}
}

// A mounted handler must not redirect out of its prefix or to another path.
func TestHandler_UnderAPrefix_RedirectsStayBelowIt(t *testing.T) {
	m := newManager(t, nil)
	mux := http.NewServeMux()
	mux.Handle("/ccm/", http.StripPrefix("/ccm", newHandler(m, endpoints.WithProfiling(true))))
	if w := get(mux, "/ccm/healthz"); w.Code != http.StatusOK {
		t.Errorf("GET /ccm/healthz is %d %s", w.Code, w.Body)
	}
	if w := get(mux, "/ccm/debug/pprof"); w.Code != http.StatusMovedPermanently ||
		w.Header().Get("Location") != "pprof/" {
		t.Errorf("GET /ccm/debug/pprof is %d to %q, want a redirect to the relative pprof/", w.Code,
			w.Header().Get("Location"))
	}
	bare := newHandler(m)
	for _, path := range []string{
		"//healthz", "/x/../metrics", "/healthz//leaderElection",
		"/./configz",
	} {
		if w := get(bare, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s is %d to %q, want 404", path, w.Code, w.Header().Get("Location"))
		}
	}
}

// A host with its own HTTP server links neither an API server, nor net/http/pprof, which adds
// profiles to the default mux.
func TestImports_NoAPIServer(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if strings.HasPrefix(pkg, "k8s.io/apiserver/") &&
			pkg != "k8s.io/apiserver/pkg/util/feature" || pkg == "net/http/pprof" {
			t.Errorf("imports %s", pkg)
		}
	}
}
