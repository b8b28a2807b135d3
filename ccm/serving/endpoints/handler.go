package endpoints

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// An Option configures [NewHandler].
type Option func(*options)

type options struct {
	gatherers prometheus.Gatherers
	// chosen: the host has named gatherers.
	chosen    bool
	profiling bool
	serving   *servingconfig.Config
	log       logr.Logger
}

// WithGatherers adds metrics to /metrics, such as another registry of the host. Duplicates of a
// series are dropped, so several gatherers may report on the same process.
//
// It is needed for the Manager's metrics only if its Registerer is not a prometheus.Gatherer, such
// as one of prometheus.WrapRegistererWith.
func WithGatherers(gatherers ...prometheus.Gatherer) Option {
	return func(o *options) {
		o.gatherers, o.chosen = append(o.gatherers, gatherers...), true
	}
}

// WithOnlyGatherers replaces the metrics of /metrics. The default is component-base's
// legacyregistry, which has those of the route controller and is shared by the whole process, and
// the registry that the Manager was given.
func WithOnlyGatherers(gatherers ...prometheus.Gatherer) Option {
	return func(o *options) {
		o.gatherers, o.chosen = append(prometheus.Gatherers{}, gatherers...), true
	}
}

// WithProfiling serves /debug/. The default is false: profiles show the internals of the whole
// process to every client, and recording one costs CPU time. Package ccm/serving passes its
// Config.Profiling (--profiling).
func WithProfiling(on bool) Option { return func(o *options) { o.profiling = on } }

// WithServingConfig adds the configuration of the secure port to /configz, as package ccm/serving
// does.
func WithServingConfig(cfg servingconfig.Config) Option {
	return func(o *options) { o.serving = &cfg }
}

// WithLogger sets the logger of failed checks and inconsistent metrics, both at V(2). The default
// is klog's.
func WithLogger(log logr.Logger) Option { return func(o *options) { o.log = log } }

// NewHandler returns the endpoints of m. Paths are absolute: a host that mounts them elsewhere
// strips its prefix. Only GET and HEAD are allowed, except below /debug/controllers/, where the
// controllers decide. The handler is safe for concurrent use, and needs no cleanup.
func NewHandler(m *ccm.Manager, opts ...Option) http.Handler {
	o := collect(m.Registerer(), opts)
	mux := newMux(Parts{
		Liveness: m.LivenessChecks(), Readiness: m.ReadinessChecks(), Statusz: Statusz(m),
	}, &o)
	mux.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, configOf(m, o.serving))
	})
	if o.profiling {
		const prefix = "/debug/controllers"
		mux.Handle(prefix+"/", http.StripPrefix(prefix, m.DebuggingHandler()))
	}
	return canonical(mux)
}

// Parts are the sources of the endpoints of an object other than one Manager, such as a fleet.
type Parts struct {
	// Liveness and Readiness are the checks of /livez (and /healthz) and of /readyz.
	Liveness, Readiness []ccm.Check
	// Statusz serves /statusz.
	Statusz http.Handler
}

// NewHandlerOf is like [NewHandler], but without /configz and /debug/controllers/.
func NewHandlerOf(p Parts, opts ...Option) http.Handler {
	o := collect(nil, opts)
	return canonical(newMux(p, &o))
}

func collect(registerer prometheus.Registerer, opts []Option) options {
	o := options{
		gatherers: prometheus.Gatherers{legacyregistry.DefaultGatherer},
		log:       klog.Background().WithName("ccm").WithName("endpoints"),
	}
	own, served := registerer.(prometheus.Gatherer)
	if served && registerer != legacyregistry.Registerer() { // DefaultGatherer gathers that one
		o.gatherers = append(o.gatherers, own)
	}
	for _, opt := range opts {
		opt(&o)
	}
	o.gatherers = distinct(o.gatherers)
	if registerer != nil && !served && !o.chosen {
		o.log.Info("/metrics lacks the fxccm_ metrics: the Registerer is not a prometheus.Gatherer; "+
			"add one with endpoints.WithGatherers", "registerer", fmt.Sprintf("%T", registerer))
	}
	return o
}

func newMux(p Parts, o *options) *http.ServeMux {
	mux := http.NewServeMux()
	health{"healthz", p.Liveness, o.log}.install(mux)
	health{"livez", p.Liveness, o.log}.install(mux)
	health{"readyz", p.Readiness, o.log}.install(mux)
	mux.Handle("GET /metrics", metrics(o.gatherers, o.log))
	mux.Handle("GET /statusz", p.Statusz)
	if o.profiling {
		installProfiles(mux)
	}
	return mux
}

// canonical returns 404 for paths that http.ServeMux would redirect to their clean form, because
// the mux does not know the prefix that the host has stripped.
func canonical(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clean := path.Clean(r.URL.Path)
		if clean != "/" && strings.HasSuffix(r.URL.Path, "/") {
			clean += "/"
		}
		if clean != r.URL.Path {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache, private")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encode the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // an error means that the client is gone
}
