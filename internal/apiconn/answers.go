package apiconn

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// WithoutRedirects returns a copy of config whose clients follow no redirect, for connections that
// [Transport] does not make.
func WithoutRedirects(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noRedirects{next} })
	return config
}

// noRedirects refuses redirects. An API server redirects no client but a browser, and http.Client
// would send the request, with its body, to any address that a hostile server names. client-go adds
// the credentials to each request, whatever its address.
type noRedirects struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noRedirects) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(r)
	if err != nil || response.StatusCode < 300 || response.StatusCode >= 400 ||
		response.StatusCode == http.StatusNotModified {
		return response, err
	}
	return nil, refuse(response)
}

// WrappedRoundTripper lets client-go find the transport below.
func (n noRedirects) WrappedRoundTripper() http.RoundTripper { return n.next }

// noSwitch refuses a switch of protocols that the client has not requested: its body has no end.
type noSwitch struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noSwitch) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols ||
		r.Header.Get("Upgrade") != "" {
		return response, err
	}
	return nil, refuse(response)
}

func refuse(response *http.Response) error {
	_ = response.Body.Close()
	return fmt.Errorf("the server answered with the status %d %s, which is refused: a "+
		"client follows no redirect", response.StatusCode, http.StatusText(response.StatusCode))
}
