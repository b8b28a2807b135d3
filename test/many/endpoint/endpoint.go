package endpoint

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// streams is how many requests one connection may carry at once; it is kube-apiserver's default.
const streams = 1000

// A Fault is how an endpoint fails.
type Fault int

const (
	// Healthy is not to fail.
	Healthy Fault = iota
	// Down refuses connections, and has cut those that there were.
	Down
	// Hanging accepts connections and lets nothing pass, in no direction.
	Hanging
	// Impostor shows the certificate of another authority, and has cut the connections that there were.
	Impostor
)

// String implements fmt.Stringer.
func (f Fault) String() string {
	switch f {
	case Healthy:
		return "healthy"
	case Down:
		return "down"
	case Hanging:
		return "hanging"
	case Impostor:
		return "impostor"
	}
	return fmt.Sprintf("Fault(%d)", int(f))
}

// An Endpoint shows one part of a cluster at an address of its own. Its methods are safe for concurrent use, but Break and Close, which
// are for one goroutine.
type Endpoint struct {
	part  part
	token string
	ca    []byte
	gate  *gate

	own, foreign *tls.Certificate
	impostor     atomic.Bool

	backend *http.Transport
	// dialer knows the connections of backend.
	dialer *connrotation.Dialer
	proxy  *httputil.ReverseProxy
	server *http.Server
	served chan error

	mu sync.Mutex
	// idle is told when inFlight has become 0.
	idle     *sync.Cond
	inFlight int
	closed   bool
	refused  []string
}

// Start opens an endpoint, at a loopback address and a free port, for the part of that name. What comes through it reaches the API server of
// cluster under cluster's identity. It must be closed.
func Start(cluster *rest.Config, name string) (*Endpoint, error) {
	e, err := newEndpoint(cluster, name)
	if err != nil {
		return nil, fmt.Errorf("open an endpoint for %s: %w", name, err)
	}
	go func() { e.served <- e.server.ServeTLS(e.gate, "", "") }()
	return e, nil
}

func newEndpoint(cluster *rest.Config, name string) (_ *Endpoint, err error) {
	e := &Endpoint{part: part(name), token: rand.Text(), served: make(chan error, 1)}
	e.idle = sync.NewCond(&e.mu)
	if e.ca, e.own, err = newCertificate(name); err != nil {
		return nil, err
	}
	if _, e.foreign, err = newCertificate("somebody else than " + name); err != nil {
		return nil, err
	}
	if err := e.reach(cluster); err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0)
	e.proxy.ErrorLog = silent
	e.server = &http.Server{
		Handler:   http.HandlerFunc(e.serve),
		TLSConfig: &tls.Config{GetCertificate: e.certificate},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: streams},
		ErrorLog:  silent, // it would tell of each client that does not trust the impostor
	}
	e.gate, err = openGateOnFreePort()
	return e, err
}

// reach prepares the way to the API server.
func (e *Endpoint) reach(cluster *rest.Config) error {
	address, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return err
	}
	secrets, err := rest.TLSConfigFor(cluster)
	if err != nil {
		return err
	}
	e.dialer = connrotation.NewDialer((&net.Dialer{}).DialContext)
	e.backend = &http.Transport{DialContext: e.dialer.DialContext, TLSClientConfig: secrets, ForceAttemptHTTP2: true, DisableCompression: true}
	as, err := rest.HTTPWrappersForConfig(cluster, e.backend)
	if err != nil {
		return err
	}
	e.proxy = &httputil.ReverseProxy{
		Transport: as,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: address.Scheme, Host: address.Host})
			r.Out.Header.Del("Authorization")
		},
		FlushInterval: -1, // events of a watch at once
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			answer(w, apierrors.NewServiceUnavailable("the endpoint cannot reach its API server: "+err.Error()))
		},
	}
	return nil
}

func (e *Endpoint) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if e.impostor.Load() {
		return e.foreign, nil
	}
	return e.own, nil
}

// RESTConfig is what a client needs to reach the endpoint: address, certificate authority and token. As all configurations for tests it
// has client-side throttling off.
func (e *Endpoint) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:            "https://" + e.gate.Addr().String(),
		BearerToken:     e.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(e.ca)},
		QPS:             -1,
	}
}

// Break makes the endpoint fail as the fault says, from now on; [Healthy] heals it. The error says that the address could not be had again.
func (e *Endpoint) Break(f Fault) error {
	e.impostor.Store(f == Impostor)
	if f != Hanging {
		e.gate.thaw()
	}
	switch f {
	case Down:
		e.gate.shut()
		return nil
	case Hanging:
		e.gate.freeze()
	case Impostor:
		e.gate.cut()
	}
	return e.gate.open()
}

// Connections is how many connections clients have to the endpoint.
func (e *Endpoint) Connections() int { return e.gate.connections() }

// InFlight is how many requests are being answered, watches included.
func (e *Endpoint) InFlight() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inFlight
}

// Refused are the requests that were not for this part, with the reason, in order.
func (e *Endpoint) Refused() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.refused)
}

// Close ends the endpoint: its port, its connections and what is on them.
func (e *Endpoint) Close() error {
	err := e.server.Close()
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	e.drain()
	e.backend.CloseIdleConnections()
	// An HTTP/2 connection is not idle at once when the last answer was read to its end or left: its stream is cleaned up by another goroutine.
	e.dialer.CloseAll()
	if err != nil {
		return fmt.Errorf("close the endpoint of %s: %w", e.part, err)
	}
	return nil
}

// drain waits for the requests whose connections were closed.
func (e *Endpoint) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.closed = true; e.inFlight > 0; {
		e.idle.Wait()
	}
}

func (e *Endpoint) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.inFlight++
	}
	return !e.closed
}

func (e *Endpoint) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inFlight--; e.inFlight == 0 {
		e.idle.Broadcast()
	}
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	if !e.begin() {
		return
	}
	defer e.end()
	if token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); subtle.ConstantTimeCompare([]byte(token), []byte(e.token)) != 1 {
		e.refuse(r, "it has another token")
		answer(w, apierrors.NewUnauthorized("the token is not one of "+string(e.part)))
		return
	}
	method, asked := r.Method, *r.URL
	if err := e.part.confine(method, r.URL); err != nil {
		r.URL = &asked
		e.refuse(r, err.Error())
		answer(w, apierrors.NewForbidden(schema.GroupResource{}, "", err))
		return
	}
	e.proxy.ServeHTTP(w, r)
}

func (e *Endpoint) refuse(r *http.Request, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = append(e.refused, fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, reason))
}

// answer sends an error as the API server would.
func answer(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, marshalErr := json.Marshal(status)
	if marshalErr != nil {
		http.Error(w, marshalErr.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body)
}
