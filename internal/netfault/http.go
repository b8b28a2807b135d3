package netfault

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// streams is how many requests one connection may carry at once; it is kube-apiserver's default.
const streams = 1000

// A server is the part of a proxy that reads requests.
type server struct {
	ca      []byte
	next    http.Handler
	proxy   *Proxy
	server  *http.Server
	served  chan error
	release func()

	// handling counts the requests that are being answered. Add needs the lock and an open server.
	handling sync.WaitGroup
	mu       sync.Mutex
	closed   bool
}

// ListenHTTP opens a proxy in front of its own HTTP server with TLS and HTTP/2, which answers with
// handler. [Proxy.RESTConfig] has the certificate authority for clients. The proxy must be closed.
func ListenHTTP(handler http.Handler) (*Proxy, error) {
	s := &server{next: handler, served: make(chan error, 1), release: func() {}}
	ca, certificate, err := newCertificate("netfault")
	if err != nil {
		return nil, fmt.Errorf("open a proxy: %w", err)
	}
	s.ca = ca
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a proxy: %w", err)
	}
	p, err := Listen(inner.Addr().String())
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	s.proxy, p.http = p, s
	s.server = &http.Server{
		Handler:           s,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}},
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streams},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // a fault ends connections on purpose
	}
	go func() { s.served <- s.server.ServeTLS(inner, "", "") }()
	return p, nil
}

// ListenAPI is [ListenHTTP] in front of the API server of cfg. A request without a header
// Authorization reaches it with the identity of cfg, so clients need no credentials. A request with
// the header, such as the token of a ServiceAccount, keeps its own identity.
func ListenAPI(cfg *rest.Config) (*Proxy, error) {
	handler, release, err := APIHandler(cfg)
	if err != nil {
		return nil, err
	}
	p, err := ListenHTTP(handler)
	if err != nil {
		release()
		return nil, err
	}
	p.http.release = release
	return p, nil
}

// APIHandler is the handler of [ListenAPI], for a test that intercepts requests before they reach
// the API server of cfg: it wraps the handler, and passes it to [ListenHTTP]. release closes the
// connections to the API server; call it after [Proxy.Close].
func APIHandler(cfg *rest.Config) (handler http.Handler, release func(), err error) {
	target, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("open a proxy for an API server: %w", err)
	}
	dialer := connrotation.NewDialer((&net.Dialer{}).DialContext)
	as, err := transportOf(cfg, dialer)
	if err != nil {
		return nil, nil, fmt.Errorf("open a proxy for an API server: %w", err)
	}
	anonymous, err := transportOf(rest.AnonymousClientConfig(cfg), dialer)
	if err != nil {
		return nil, nil, fmt.Errorf("open a proxy for an API server: %w", err)
	}
	forward := func(transport http.RoundTripper) http.Handler {
		return &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
			},
			Transport:     transport,
			FlushInterval: -1, // events of a watch at once
			ErrorLog:      log.New(io.Discard, "", 0),
		}
	}
	withIdentity, withToken := forward(as), forward(anonymous)
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			withToken.ServeHTTP(w, r)
			return
		}
		withIdentity.ServeHTTP(w, r)
	})
	// An HTTP/2 connection is not idle immediately after its last answer was read, so all are
	// closed.
	return handler, dialer.CloseAll, nil
}

// transportOf opens its own connections, because all clients of an identity share those of
// client-go.
func transportOf(cfg *rest.Config, dialer *connrotation.Dialer) (http.RoundTripper, error) {
	secrets, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	return rest.HTTPWrappersForConfig(cfg, &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: secrets, ForceAttemptHTTP2: true,
		DisableCompression: true,
	})
}

// RESTConfig is the client configuration for a proxy that reads requests: its address and
// certificate authority. It is a new copy, without client-side throttling. For a proxy of [Listen]
// it is nil; a client then uses its own configuration with the proxy's address.
func (p *Proxy) RESTConfig() *rest.Config {
	if p.http == nil {
		return nil
	}
	return &rest.Config{
		Host:            "https://" + p.Addr(),
		TLSClientConfig: rest.TLSClientConfig{CAData: append([]byte(nil), p.http.ca...)},
		QPS:             -1,
	}
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return
	}
	defer s.handling.Done()
	fault, _ := s.proxy.state()
	switch fault.kind {
	case slow:
		select {
		case <-time.After(fault.delay):
		case <-r.Context().Done():
			return
		}
	case status:
		if fault.retryAfter > 0 {
			w.Header().Set("Retry-After",
				strconv.Itoa(int((fault.retryAfter+time.Second-1)/time.Second)))
		}
		http.Error(w, "netfault answers so", fault.code)
		return
	}
	s.next.ServeHTTP(w, r)
}

// begin returns false if the server is closed: a connection may still deliver a request then.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.handling.Add(1)
	}
	return !s.closed
}

// close ends the server after its connections have been closed.
func (s *server) close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.handling.Wait()
	s.release()
	if err != nil {
		return fmt.Errorf("close the proxy: %w", err)
	}
	return nil
}
