package endpoints

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/internal/webpage"
)

// metrics serves all gatherers as one. Registries of one process often overlap (go_*, process_*),
// and a collector may fail: such metrics are dropped, and all others are served.
func metrics(gatherers prometheus.Gatherers, log logr.Logger) http.Handler {
	handler := promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{
		ErrorLog:         metricsLog{log},
		ErrorHandling:    promhttp.ContinueOnError,
		ProcessStartTime: legacyregistry.GetProcessStart(),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		canonical := r.Clone(r.Context())
		canonical.Header.Set("Accept", metricsFormat(r.Header.Get("Accept")))
		handler.ServeHTTP(w, canonical)
	})
}

// metricsFormat returns the preferred format of an Accept header as a header with no text of the
// client, because promhttp reads it with a parser that has no limit and is not maintained.
func metricsFormat(accept string) string {
	escaping := ""
	for _, t := range webpage.Accepted(accept) {
		// Prometheus names the escaping of metrics in only some of its formats.
		switch value := t.Params["escaping"]; value {
		case "allow-utf-8", "underscores", "dots", "values":
			escaping = ";escaping=" + value
		}
		encoding := t.Params["encoding"]
		switch {
		case t.Name == "text/plain" &&
			(t.Params["version"] == "" || t.Params["version"] == "0.0.4"):
			return textFormat + escaping
		case t.Name == "application/vnd.google.protobuf" &&
			t.Params["proto"] == "io.prometheus.client.MetricFamily" &&
			slices.Contains([]string{"delimited", "text", "compact-text"}, encoding):
			return protobufFormat + encoding + escaping
		}
	}
	return textFormat + escaping
}

// The formats of promhttp without OpenMetrics. Only protocol buffers have native histograms.
const (
	textFormat     = "text/plain;version=0.0.4"
	protobufFormat = "application/vnd.google.protobuf;" +
		"proto=io.prometheus.client.MetricFamily;encoding="
)

// distinct drops gatherers that are listed twice, each of whose metrics would be an error.
func distinct(gatherers prometheus.Gatherers) prometheus.Gatherers {
	listed := map[prometheus.Gatherer]bool{}
	return slices.DeleteFunc(gatherers, func(g prometheus.Gatherer) bool {
		if g == nil || !reflect.TypeOf(g).Comparable() {
			return g == nil
		}
		again := listed[g]
		listed[g] = true
		return again
	})
}

// metricsLog is a promhttp.Logger.
type metricsLog struct{ log logr.Logger }

func (l metricsLog) Println(v ...any) {
	l.log.V(2).Info("Incomplete metrics", "reason", fmt.Sprint(v...))
}
