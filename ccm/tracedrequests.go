package ccm

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"

	"github.com/fxccm/fxccm/internal/tracing"
)

// traced makes spans of the requests to the API server that belong to a span, such as the sync of a
// Service. Requests of informers, events and the lease belong to none.
func traced(next http.RoundTripper) http.RoundTripper { return tracedRequests{next} }

type tracedRequests struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t tracedRequests) RoundTrip(req *http.Request) (*http.Response, error) {
	if !tracing.IsInside(req.Context()) {
		return t.next.RoundTrip(req)
	}
	name, attributes := nameRequest(req)
	req, span := tracing.StartRequest(req, name, attributes...)
	resp, err := t.next.RoundTrip(req)
	span.EndRequest(resp, err, 0)
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t tracedRequests) WrappedRoundTripper() http.RoundTripper { return t.next }

// nameRequest names a request by its method and its resource, such as "PATCH services/status".
func nameRequest(req *http.Request) (name string, attributes []slog.Attr) {
	method := cmp.Or(req.Method, http.MethodGet)
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	// The path may begin with that of a proxy.
	for len(parts) > 0 && parts[0] != "api" && parts[0] != "apis" {
		parts = parts[1:]
	}
	switch {
	case len(parts) > 2 && parts[0] == "api": // api/v1/...
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis": // apis/group/version/...
		parts = parts[3:]
	default:
		return method, nil
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		attributes = append(attributes, slog.String(tracing.Namespace, parts[1]))
		parts = parts[2:]
	}
	name = method + " " + parts[0]
	if len(parts) > 2 {
		name += "/" + parts[2]
	}
	return name, attributes
}
