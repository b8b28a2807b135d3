package client

import (
	"fmt"
	"net/http"
)

// replay returns the request with a rewound body for another attempt. An http.RoundTripper must not
// modify its request.
func replay(req *http.Request) (*http.Request, error) {
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again, nil
	}
	if req.GetBody == nil {
		return nil, fmt.Errorf("the body of %s %s cannot be sent again", req.Method, req.URL.Path)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("rewind the body of %s %s: %w", req.Method, req.URL.Path, err)
	}
	again.Body = body
	return again, nil
}

func replayable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// closeBody must be called for a request that is not sent: http.RoundTripper always closes the
// body.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
