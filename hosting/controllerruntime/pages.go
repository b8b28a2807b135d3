package controllerruntime

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fxccm/fxccm/internal/webpage"
)

// Handler serves the pages that managers of controller-runtime serve on their own ports:
//
//	/healthz  checks that Setup has added with AddHealthzCheck
//	/readyz   checks that Setup has added with AddReadyzCheck
//	/metrics  the registry of controller-runtime, with the metrics of the cloud controller manager
//
// and the handlers that Setup has added with AddMetricsServerExtraHandler. Checks and handlers are
// those of the current campaign. Before the first one, both health pages report ok. The handler
// does not authenticate.
func (h *Host) Handler() http.Handler {
	before := newPages().seal()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages := h.pages.Load(); pages != nil {
			pages.ServeHTTP(w, r)
			return
		}
		before.ServeHTTP(w, r)
	})
}

// pages are the pages of one manager.
type pages struct {
	mu      sync.Mutex
	sealed  bool
	mux     *http.ServeMux
	paths   map[string]bool
	healthz *healthz.Handler
	readyz  *healthz.Handler
}

func newPages() *pages {
	return &pages{
		mux: http.NewServeMux(), paths: map[string]bool{},
		healthz: &healthz.Handler{Checks: map[string]healthz.Checker{}},
		readyz:  &healthz.Handler{Checks: map[string]healthz.Checker{}},
	}
}

// errSealed is controller-runtime's rule for its own servers: they are complete before the start.
var errSealed = errors.New("controllerruntime: checks and handlers are added in Setup, " +
	"before the manager starts")

func (p *pages) addCheck(to *healthz.Handler, name string, check healthz.Checker) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sealed {
		return errSealed
	}
	to.Checks[name] = check
	return nil
}

func (p *pages) addHandler(path string, handler http.Handler) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sealed {
		return errSealed
	}
	if !strings.HasPrefix(path, "/") || p.paths[path] || path == "/healthz" || path == "/readyz" ||
		path == "/metrics" {
		return errors.New("controllerruntime: the path " + path +
			" does not begin with a slash, or has a handler already")
	}
	p.paths[path] = true
	p.mux.Handle(path, handler)
	return nil
}

// seal completes the pages. After it, the checks are read without a lock.
func (p *pages) seal() *http.ServeMux {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = true
	for path, checks := range map[string]http.Handler{"/healthz": p.healthz, "/readyz": p.readyz} {
		p.mux.Handle(path, http.StripPrefix(path, checks))
		p.mux.Handle(path+"/", http.StripPrefix(path, checks))
	}
	p.mux.Handle("/metrics", webpage.WithMetricsFormat(
		promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{})))
	return p.mux
}
