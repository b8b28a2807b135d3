package registry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"
)

func Register(h http.Handler) {
	prometheus.MustRegister()                   // want `registry: github.com/prometheus/client_golang/prometheus.MustRegister`
	prometheus.DefaultRegisterer.MustRegister() // want `registry: .*DefaultRegisterer` `panic: .*MustRegister`
	legacyregistry.MustRegister()               // want `registry: .*legacyregistry.MustRegister`
	http.Handle("/", h)                         // want `registry: net/http.Handle`
	http.HandleFunc("/x", nil)                  // want `registry: net/http.HandleFunc`
	http.DefaultServeMux.Handle("/y", h)        // want `registry: net/http.DefaultServeMux`
	_ = scheme.AddToScheme(scheme.Scheme)       // want `registry: client-go's scheme is the host's`
	must(scheme.AddToScheme(scheme.Scheme))     // want `registry: client-go's scheme is the host's`
	scheme.Scheme.AddKnownTypes()               // want `registry: client-go's scheme is the host's`
}

func must(error) {}

func Fine(r prometheus.Registerer, mux *http.ServeMux, own *scheme.Type) any {
	mux.Handle("/", nil)
	_ = scheme.AddToScheme(own)
	scheme.Scheme.Recognizes(nil)
	return legacyregistry.DefaultGatherer
}
