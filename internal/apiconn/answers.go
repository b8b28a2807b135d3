package apiconn

import (
	"fmt"
	"net/http"
)

// answers refuses redirects. An API server redirects no client but a browser, and http.Client would
// send the request, with its body, to any address that a hostile server names.
type answers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. A switch of protocols that the client has not requested
// is refused, too: its body has no end.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	isRedirect := response.StatusCode >= 300 && response.StatusCode < 400
	isUnwanted := response.StatusCode == http.StatusSwitchingProtocols &&
		r.Header.Get("Upgrade") == ""
	if !isRedirect && !isUnwanted {
		return response, nil
	}
	_ = response.Body.Close()
	return nil, fmt.Errorf("the API server answered with the status %d %s, which is refused: a "+
		"client follows no redirect", response.StatusCode, http.StatusText(response.StatusCode))
}
