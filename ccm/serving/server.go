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
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/inflight"
)

const (
	// stopGrace is what requests in flight get to end in when nobody has set a deadline.
	stopGrace = 5 * time.Second

	// stopReserve is the part of a deadline in which requests that did not end are cut off and waited for.
	stopReserve = 200 * time.Millisecond

	// As k8s.io/apiserver, so that what works with one component works with the other.
	idleTimeout       = 90 * time.Second
	readHeaderTimeout = 32 * time.Second
	maxHeaderBytes    = 1 << 20
)

// Config configures the secure port.
type Config = servingconfig.Config

// DefaultConfig returns upstream's defaults.
func DefaultConfig() Config { return servingconfig.Default() }

// An Option changes what [New] makes.
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

// WithListener takes what is served from listen, instead of opening [Config]'s BindAddress and SecurePort. TLS is put on top.
// listen is called at each start, and again when a listener fails.
func WithListener(listen func(context.Context) (net.Listener, error)) Option {
	return func(o *options) { o.listen = listen }
}

// WithLogger is the logger. The default is klog's.
func WithLogger(log logr.Logger) Option { return func(o *options) { o.log = &log } }

// A Server serves the endpoints of a Manager on a secure port. It can be run again after it has ended. Its methods are safe for
// concurrent use.
type Server struct {
	settings *settings
	handler  http.Handler
	listen   func(context.Context) (net.Listener, error)
	log      logr.Logger

	mu  sync.Mutex
	run *run
}

// New checks cfg, reads its files, and returns a Server that is stopped. It opens no port and sends no request. An error
// is a *[ccm.ConfigError] that names the field at fault. With SecurePort 0 the rest of cfg does not matter: the Server runs, and serves
// nothing.
func New(m *ccm.Manager, cfg Config, opts ...Option) (*Server, error) {
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
	settings, err := check(m, cfg, log)
	if err != nil {
		return nil, err
	}
	if s.listen == nil {
		s.listen = settings.listen
	}
	s.settings = settings
	s.handler = endpoints.NewHandler(m, append([]endpoints.Option{
		endpoints.WithServingConfig(cfg), endpoints.WithProfiling(cfg.Profiling), endpoints.WithLogger(log),
	}, o.endpoints...)...)
	return s, nil
}

// Run serves until ctx ends. It returns at once if the port cannot be opened, with an error that names the address and the flag;
// later trouble with it is told in the log, and the port opened again.
//
// When ctx ends no new connection is accepted, and requests in flight get the time to end: until the deadline of the cause
// [ccm.StopBy], or 5 seconds. Then they are cut off. All goroutines have ended when Run returns; if a request's handler has not, the
// error names it.
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

// Addr is the address that is served, or nil when none is.
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
	// background ends when the last request has ended, or was cut off.
	background context.Context
	end        context.CancelFunc
	// release gives back what the run holds besides goroutines.
	release func()
}

// start opens the port and returns when it is served.
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
	r.addr, r.release, r.conns = listener.Addr(), identities.close, newConnections(&r.tasks)
	r.http = &http.Server{
		Handler:           r.track(&gate{identities: identities, open: r.server.settings.open, next: r.server.handler, log: r.log}),
		TLSConfig:         r.server.settings.tlsConfig(certificates, identities),
		Protocols:         r.server.settings.protocols(),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: r.server.settings.cfg.HTTP2MaxStreams},
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
	r.log.Info("Serving securely", "address", r.addr.String())
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
		defer r.tasks.Begin(inflight.Activity{Name: req.Method + " " + req.URL.Path})()
		next.ServeHTTP(w, req)
	})
}

// serve accepts until the server is shut down. A listener that fails is not the end: the Manager goes on, and so must its probes.
func (r *run) serve(listener net.Listener) {
	delay := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 10 * time.Second}.DelayFunc()
	for {
		addr := listener.Addr().String()
		err := r.http.ServeTLS(listener, "", "")
		if errors.Is(err, http.ErrServerClosed) {
			return
		}
		_ = listener.Close()
		for err != nil {
			r.log.Error(err, "The port is not served; it is opened again", "address", addr)
			select {
			case <-time.After(delay()):
			case <-r.background.Done():
				return
			}
			listener, err = r.server.listen(r.background)
		}
		r.moved(listener.Addr())
		r.log.Info("Serving securely again", "address", listener.Addr().String())
	}
}

func (r *run) moved(addr net.Addr) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.addr = addr
}

// stop ends the run by the deadline of ctx: requests in flight get all of it but a reserve.
func (r *run) stop(ctx context.Context) error {
	defer r.forget()
	if r.http != nil {
		r.shutdown(ctx)
	}
	r.end()
	err := r.tasks.Wait(ctx, 0, nil)
	r.release()
	if err != nil {
		return fmt.Errorf("serving: did not stop in time; still running: %s: %w", strings.Join(r.tasks.Names(), ", "), err)
	}
	if r.http != nil {
		r.log.Info("Stopped serving")
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
		r.log.Info("Requests did not end in time and are cut off", "running", r.tasks.Names())
		r.end() // before the connections close, so that handlers see why
		_ = r.http.Close()
	}
}

func (r *run) forget() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.server.run = nil
}

// errorLog takes what net/http has to say. Handshakes that fail are the other side's trouble: a port scan would fill the log.
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
