package serving

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/inflight"
)

const (
	// stopGrace is the time for requests in flight to finish if the stop has no deadline.
	stopGrace = 5 * time.Second

	// stopReserve is the part of a deadline in which the remaining requests are canceled and
	// awaited.
	stopReserve = 200 * time.Millisecond

	// The values of k8s.io/apiserver.
	idleTimeout       = 90 * time.Second
	readHeaderTimeout = 32 * time.Second
	maxHeaderBytes    = 1 << 20
)

// An Option configures a [Server].
type Option func(*options)

type options struct {
	endpoints []endpoints.Option
	listen    func(context.Context) (net.Listener, error)
	log       *logr.Logger
}

// WithEndpoints passes options to the endpoints.
func WithEndpoints(opts ...endpoints.Option) Option {
	return func(o *options) { o.endpoints = append(o.endpoints, opts...) }
}

// WithListener serves the listeners that listen returns, with TLS on top, instead of BindAddress
// and SecurePort of [Config]. listen is called at each start, and again after a listener has
// failed.
func WithListener(listen func(context.Context) (net.Listener, error)) Option {
	return func(o *options) { o.listen = listen }
}

// WithLogger sets the logger. The default is klog's.
func WithLogger(log logr.Logger) Option { return func(o *options) { o.log = &log } }

// A Server serves the endpoints of a Manager on a secure port. It can run again after Run has
// returned. Its methods are safe for concurrent use.
type Server struct {
	settings *settings
	handler  http.Handler
	listen   func(context.Context) (net.Listener, error)
	log      logr.Logger

	mu  sync.Mutex
	run *run
}

// New validates cfg, reads its files, and returns a stopped Server. It opens no port and sends no
// request. An error is a *[ccm.ConfigError] that names the invalid field. With SecurePort 0 the
// other fields are ignored: the Server runs without a port.
func New(m *ccm.Manager, cfg servingconfig.Config, opts ...Option) (*Server, error) {
	return NewFor(m.RESTConfig(), func(of ...endpoints.Option) http.Handler {
		return endpoints.NewHandler(m, of...)
	}, cfg, opts...)
}

// NewFor is like [New] for another handler than a Manager's, such as a fleet's. handler is called
// with the options of the endpoints. client is the configuration for the reviews of clients, unless
// cfg names another.
func NewFor(
	client *rest.Config, handler func(...endpoints.Option) http.Handler, cfg servingconfig.Config,
	opts ...Option,
) (*Server, error) {
	logger := klog.Background().WithName("ccm")
	o := options{log: &logger}
	for _, opt := range opts {
		opt(&o)
	}
	log := o.log.WithName("serving")
	s := &Server{log: log, listen: o.listen}
	if s.listen == nil && cfg.SecurePort == 0 {
		return s, nil
	}
	settings, err := check(client, cfg, log)
	if err != nil {
		return nil, err
	}
	if s.listen == nil {
		s.listen = settings.listen
	}
	s.settings = settings
	s.handler = handler(append([]endpoints.Option{
		endpoints.WithServingConfig(cfg), endpoints.WithProfiling(cfg.Profiling),
		endpoints.WithLogger(log),
	}, o.endpoints...)...)
	return s, nil
}

// Run serves until ctx ends. If the port cannot be opened, Run returns an error at once that names
// the address and the flag. If the listener fails later, Run logs the error and opens the port
// again.
//
// When ctx ends, Run accepts no new connections. Requests in flight may finish until the deadline
// of the cause [ccm.StopBy], or for 5 seconds; then they are canceled. All goroutines have ended
// when Run returns. If the handler of a request does not end, the error names the request.
func (s *Server) Run(ctx context.Context) error {
	r, err := s.start(ctx)
	if err != nil {
		return err
	}
	<-ctx.Done()
	deadline, ok := ccm.StopDeadline(ctx)
	if !ok {
		deadline = time.Now().Add(stopGrace)
	}
	stopping, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return r.stop(stopping)
}

// Addr returns the address of the port, or nil while it is closed.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.addr == nil {
		return nil
	}
	return s.run.addr
}

// run is one run of a Server, from the open port to the last goroutine.
type run struct {
	server *Server
	log    logr.Logger
	addr   net.Addr
	http   *http.Server
	conns  *connections

	// tasks are the goroutines and the requests.
	tasks inflight.Set
	// background ends after the last request has finished or was canceled.
	background context.Context
	end        context.CancelFunc
	// release closes idle connections to the API server.
	release func()
}

// start opens the port and serves it in the background.
func (s *Server) start(ctx context.Context) (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil, errors.New("serving: already running")
	}
	r := &run{server: s, log: s.log, release: func() {}}
	r.background, r.end = context.WithCancel(context.WithoutCancel(ctx))
	if s.listen != nil {
		if err := r.open(ctx); err != nil {
			r.end()
			return nil, err
		}
	}
	s.run = r
	return r, nil
}

func (r *run) open(ctx context.Context) error {
	certificates, err := r.server.settings.certificates()
	if err != nil {
		return err
	}
	identities, err := r.server.settings.identities(&r.tasks, r.background)
	if err != nil {
		return err
	}
	listener, err := r.server.listen(ctx)
	if err != nil {
		return err
	}
	cfg := r.server.settings.cfg
	r.addr, r.release, r.conns = listener.Addr(), identities.close, newConnections(&r.tasks)
	gate := &gate{
		identities: identities, open: r.server.settings.open, next: r.server.handler, log: r.log,
	}
	r.http = &http.Server{
		Handler:           r.track(gate),
		TLSConfig:         r.server.settings.tlsConfig(certificates, identities),
		Protocols:         r.server.settings.protocols(),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: cfg.HTTP2MaxStreams},
		MaxHeaderBytes:    maxHeaderBytes,
		IdleTimeout:       idleTimeout,
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          log.New(errorLog{r.log}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return r.background },
		ConnState:         r.conns.changed,
	}
	r.spawn("listener", func() { r.serve(listener) })
	if identities.cluster != nil {
		r.spawn("reader of "+clusterTrustName, func() { identities.cluster.follow(r.background) })
	}
	r.log.Info("Opened the secure port", "address", r.addr.String())
	return nil
}

func (r *run) spawn(name string, f func()) {
	end := r.tasks.Begin(inflight.Activity{Name: name})
	go func() {
		defer end()
		f()
	}()
}

// track lets stop wait for each request, and name it.
func (r *run) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer r.tasks.Begin(inflight.Activity{Name: req.Method + " " + inLog(req.URL.Path)})()
		next.ServeHTTP(w, req)
	})
}

// serve accepts connections until the server is shut down. It replaces a failed listener, because
// the Manager still runs and needs its probes.
func (r *run) serve(listener net.Listener) {
	delay := wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 10 * time.Second,
	}.DelayFunc()
	for {
		addr := listener.Addr().String()
		err := r.http.ServeTLS(listener, "", "")
		if errors.Is(err, http.ErrServerClosed) {
			return
		}
		_ = listener.Close()
		for err != nil {
			r.log.Error(err, "Listener of the secure port failed; opening it again",
				"address", addr)
			select {
			case <-time.After(delay()):
			case <-r.background.Done():
				return
			}
			listener, err = r.server.listen(r.background)
		}
		r.moved(listener.Addr())
		r.log.Info("Opened the secure port again", "address", listener.Addr().String())
	}
}

func (r *run) moved(addr net.Addr) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.addr = addr
}

// stop ends the run by the deadline of ctx. Requests in flight may finish until stopReserve before
// the deadline.
func (r *run) stop(ctx context.Context) error {
	defer r.forget()
	if r.http != nil {
		r.shutdown(ctx)
	}
	r.end()
	err := r.tasks.Wait(ctx, 0, nil)
	r.release()
	if err != nil {
		return fmt.Errorf("serving: did not stop in time; still running: %s: %w",
			strings.Join(r.tasks.Names(), ", "), err)
	}
	if r.http != nil {
		r.log.Info("Closed the secure port")
	}
	return nil
}

func (r *run) shutdown(ctx context.Context) {
	graceful, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		graceful, cancel = context.WithDeadline(ctx, deadline.Add(-stopReserve))
	}
	defer cancel()
	r.conns.refuse()
	if err := r.http.Shutdown(graceful); err != nil {
		r.log.Info("Canceling requests that did not finish in time", "running", r.tasks.Names())
		r.end() // before the connections close, so that handlers see the cancellation
		_ = r.http.Close()
	}
}

func (r *run) forget() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.server.run = nil
}

// errorLog is the log of net/http. Failed handshakes are logged at V(5) only, because a port scan
// would fill the log.
type errorLog struct{ log logr.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.HasPrefix(text, "http: TLS handshake error") {
		l.log.V(5).Info(text)
	} else {
		l.log.Info(text)
	}
	return len(p), nil
}
