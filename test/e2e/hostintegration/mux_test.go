package hostintegration_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
)

// page fetches from a server.
func page(t *testing.T, server *httptest.Server, path string) (code int, body string) {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// The host's mux serves pages of its own, and below a prefix those of the CCM; with them, its
// registry.
func TestMux_OfTheHostServesTheCCMBelowAPrefix(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the host is well")
	})
	registry := prometheus.NewRegistry()
	createConfigMap(t, objectName(t))
	app := startApp(t, newCloud(t), only("inspected"), ccmtest.WithControllers(newInspected(nil)),
		ccmtest.WithElector(ccmtest.NewManualElector()),
		ccmtest.WithFx(fx.Supply(mux, fx.Annotate(registry, fx.As(new(prometheus.Registerer)))),
			endpoints.Mount(ccm.Named(""), "/ccm", endpoints.WithOnlyGatherers(registry),
				endpoints.WithProfiling(true))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	want := func(path string, code int, text string) {
		t.Helper()
		if got, body := page(t, server, path); got != code || !strings.Contains(body, text) {
			t.Errorf("GET %s is %d %s, want %d and %q", path, got, body, code, text)
		}
	}
	app.WaitState(ccm.StateStandby)
	want("/healthz", http.StatusOK, "the host is well")
	want("/ccm/healthz", http.StatusOK, "ok")
	want("/ccm/readyz", http.StatusOK, "ok") // it stands by, ready to lead
	want("/ccm/debug/controllers/inspected/"+objectName(t), http.StatusNotFound, "")
	want("/ccm/metrics", http.StatusOK, `fxccm_leading{manager=""} 0`)

	app.Elector.Lead()
	app.WaitReady()
	want("/ccm/healthz/inspected", http.StatusOK, "ok")
	want("/ccm/healthz/nobody", http.StatusNotFound, "")
	want("/ccm/debug/controllers/inspected/"+objectName(t), http.StatusOK, "knows /"+objectName(t))
	want("/ccm/debug/pprof/goroutine?debug=1", http.StatusOK, "goroutine profile")
	want("/ccm/metrics", http.StatusOK, `fxccm_leading{manager=""} 1`)
	_, body := page(t, server, "/ccm/statusz")
	var status ccm.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil ||
		status.State != ccm.StateLeading || status.Term != 1 {
		t.Errorf("/ccm/statusz is %s (%v)", body, err)
	}
	app.Stop()
	want("/healthz", http.StatusOK, "the host is well")
	want("/ccm/readyz", http.StatusInternalServerError, "")
	want("/ccm/healthz", http.StatusOK, "ok")
}

func TestHandler_ServesAManagerWithoutFx(t *testing.T) {
	t.Parallel()
	p := params(t, newCloud(t), leading())
	p.Controllers, p.Config.Controllers = []ccm.Controller{newInspected(nil)}, []string{"inspected"}
	m, stop := run(t, p)
	ccmtest.WaitReady(t, m)
	server := httptest.NewServer(endpoints.NewHandler(m))
	t.Cleanup(server.Close)
	for path, want := range map[string]int{
		"/readyz": http.StatusOK, "/livez/inspected": http.StatusOK, "/configz": http.StatusOK,
		"/debug/controllers/inspected/x": http.StatusNotFound,
	} {
		if code, body := page(t, server, path); code != want {
			t.Errorf("GET %s is %d %s, want %d", path, code, body, want)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if code, body := page(t, server, "/readyz"); code != http.StatusInternalServerError {
		t.Errorf("after the end /readyz is %d %s", code, body)
	}
}
