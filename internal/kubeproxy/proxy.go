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
	"path"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// headerTimeout limits the time in which a client sends the header of a request.
const headerTimeout = 10 * time.Second

const loopback = "127.0.0.1"

// A hostile process must not grow the memory of this one.
const (
	// maxRequests limits the requests in flight; each informer has one.
	maxRequests = 512
	// maxClients limits the names of clients, each with its own transport.
	maxClients = 64
	// maxClientName is the length of a name of a ServiceAccount.
	maxClientName = 253
	// maxHeaderBytes limits the header of a request.
	maxHeaderBytes = 64 << 10
)

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

	mu       sync.Mutex
	closed   bool
	requests int
	forward  map[string]http.Handler
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
		Handler: p, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
		TLSConfig: secure,
		ErrorLog:  slog.NewLogLogger(logr.ToSlogHandler(log.V(2)), slog.LevelInfo),
	}
	serve := p.server.Serve
	if secure != nil {
		p.address = "https://" + listener.Addr().String()
		serve = func(l net.Listener) error { return p.server.ServeTLS(l, "", "") }
	}
	// More connections wait in the kernel.
	listener = netutil.LimitListener(listener, maxRequests)
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
	if err := p.begin(); err != nil {
		refuse(w, err)
		return
	}
	defer p.end()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	token, client, _ := strings.Cut(bearer, ".")
	if subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 || client == "" {
		refuse(w, apierrors.NewUnauthorized("the token is not that of the current term"))
		return
	}
	if reason := refusal(r); reason != "" {
		refuse(w, apierrors.NewBadRequest(reason))
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

// begin counts a request, unless it returns an error.
func (p *Proxy) begin() *apierrors.StatusError {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return apierrors.NewServiceUnavailable("the term is over")
	case p.requests == maxRequests:
		return apierrors.NewTooManyRequests("too many requests in flight", 1)
	}
	p.requests++
	p.serving.Add(1)
	return nil
}

func (p *Proxy) end() {
	p.mu.Lock()
	p.requests--
	p.mu.Unlock()
	p.serving.Done()
}

// refusal returns why a request is not forwarded, or "". A request must mean the same to this
// proxy, to proxies before the API server and to the API server, and act as the term's client.
func refusal(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions:
	default:
		return fmt.Sprintf("method %q is not forwarded", r.Method)
	}
	encoded := strings.ToLower(r.URL.EscapedPath())
	switch clean := path.Clean(r.URL.Path); {
	case r.URL.Host != "" || r.URL.Opaque != "" || !strings.HasPrefix(r.URL.Path, "/"):
		return "the target must be a path"
	case clean != r.URL.Path && clean+"/" != r.URL.Path,
		strings.ContainsAny(r.URL.Path, "%\\"),
		strings.Contains(encoded, "%2f"),
		strings.ContainsFunc(r.URL.Path, unicode.IsControl):
		return "the path must have no empty or relative segments, and no encoded separators"
	}
	for name := range r.Header {
		// The standard library has made the names canonical.
		if name == "Upgrade" || strings.HasPrefix(name, "Impersonate-") ||
			strings.HasPrefix(name, "X-Remote-") {
			return fmt.Sprintf("header %s is not forwarded", name)
		}
	}
	return ""
}

// forwarder returns the handler that sends requests as the named client.
func (p *Proxy) forwarder(client string) (http.Handler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.forward[client]; ok {
		return found, nil
	}
	if len(p.forward) == maxClients || len(client) > maxClientName {
		return nil, fmt.Errorf("more than %d clients, or a name with more than %d bytes",
			maxClients, maxClientName)
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
			r.Out.URL.RawPath = "" // one encoding for all
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
