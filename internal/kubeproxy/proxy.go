// Package kubeproxy gives another process the clients of a term: it serves the API server on a
// loopback address, with a token that is valid for the term.
package kubeproxy

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// headerTimeout limits the time in which a client sends the header of a request.
const headerTimeout = 10 * time.Second

const loopback = "127.0.0.1"

// A Proxy forwards requests to the API server as one of the term's clients. The fence of the term
// therefore checks them. It is safe for concurrent use.
type Proxy struct {
	clients func(name string) (*rest.Config, error)
	log     logr.Logger
	token   string
	address string
	ca      []byte
	server  *http.Server

	// serving counts the goroutine of the server and the requests in flight.
	serving sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	forward map[string]http.Handler
}

// Start serves on a free port of the loopback address. clients returns the configuration of a
// client of the term by name. The Proxy must be closed.
func Start(clients func(string) (*rest.Config, error), log logr.Logger) (*Proxy, error) {
	return start(clients, log, nil)
}

// StartTLS is Start with TLS, for clients with a kubeconfig: client-go sends the token of a
// kubeconfig to a TLS server only.
func StartTLS(clients func(string) (*rest.Config, error), log logr.Logger) (*Proxy, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey(loopback,
		[]net.IP{net.ParseIP(loopback)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", loopback, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("use the certificate for %s: %w", loopback, err)
	}
	p, err := start(clients, log, &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		return nil, err
	}
	p.ca = certificate
	return p, nil
}

// start serves with TLS unless the configuration is nil.
func start(
	clients func(string) (*rest.Config, error), log logr.Logger, secure *tls.Config,
) (*Proxy, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the clients of another process: %w", err)
	}
	p := &Proxy{
		clients: clients, log: log, token: rand.Text(),
		address: "http://" + listener.Addr().String(), forward: map[string]http.Handler{},
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: headerTimeout, TLSConfig: secure,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log.V(2)), slog.LevelInfo),
	}
	serve := p.server.Serve
	if secure != nil {
		p.address = "https://" + listener.Addr().String()
		serve = func(l net.Listener) error { return p.server.ServeTLS(l, "", "") }
	}
	p.serving.Go(func() { _ = serve(listener) })
	return p, nil
}

// CA is the certificate of StartTLS, in PEM form.
func (p *Proxy) CA() []byte { return p.ca }

// Address is the URL of the proxy.
func (p *Proxy) Address() string { return p.address }

// Token is the secret of the proxy; see [ClientToken].
func (p *Proxy) Token() string { return p.token }

// ClientToken returns the bearer token with which a request is forwarded as the named client.
func ClientToken(token, client string) string { return token + "." + client }

// Close ends all requests, and returns when they have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.server.Close()
	p.serving.Wait()
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		refuse(w, apierrors.NewServiceUnavailable("the term is over"))
		return
	}
	defer p.serving.Done()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	token, client, _ := strings.Cut(bearer, ".")
	if subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 || client == "" {
		refuse(w, apierrors.NewUnauthorized("the token is not that of the current term"))
		return
	}
	forward, err := p.forwarder(client)
	if err != nil {
		p.log.Error(err, "Request of another process was not forwarded", "client", client)
		refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	forward.ServeHTTP(w, r)
}

// begin counts a request. It reports false after Close.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.serving.Add(1)
	}
	return !p.closed
}

// forwarder returns the handler that sends requests as the named client.
func (p *Proxy) forwarder(client string) (http.Handler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.forward[client]; ok {
		return found, nil
	}
	config, err := p.clients(client)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", client, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", client, err)
	}
	p.forward[client] = p.reverse(base, transport)
	return p.forward[client], nil
}

func (p *Proxy) reverse(base *url.URL, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			// The term's client has its own credentials and its own user agent.
			r.Out.Header.Del("Authorization")
			r.Out.Header.Del("User-Agent")
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			p.log.V(2).Info("Request of another process failed", "method", r.Method,
				"path", r.URL.Path, "reason", err.Error())
			refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		},
	}
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, refusal *apierrors.StatusError) {
	status := refusal.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	// An error means that the client is gone.
	_ = json.NewEncoder(w).Encode(status)
}
