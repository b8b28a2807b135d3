package webpage

import (
	"net/http"
	"slices"
)

// WithMetricsFormat returns a handler that gives the handler of promhttp no text of the client's
// Accept header, because promhttp reads it with a parser that has no limit and is not maintained.
func WithMetricsFormat(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		canonical := r.Clone(r.Context())
		canonical.Header.Set("Accept", metricsFormat(r.Header.Get("Accept")))
		handler.ServeHTTP(w, canonical)
	})
}

// metricsFormat returns the preferred format of an Accept header as a header with no text of the
// client.
func metricsFormat(accept string) string {
	escaping := ""
	for _, t := range Accepted(accept) {
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
