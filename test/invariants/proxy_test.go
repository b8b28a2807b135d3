//go:build linux

package invariants_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An apiProxy stands between one replica and the API server, and can answer in its place. It speaks for the replica's identity, so
// the replica needs none.
type apiProxy struct {
	kubeconfig string
	treat      atomic.Pointer[treatment]
}

// A treatment says what becomes of a request.
type treatment func(*http.Request) verdict

// verdict: the zero value lets a request pass.
type verdict struct {
	// delay comes before all else.
	delay time.Duration
	// status, if not 0, is the answer. header goes with it.
	status int
	header http.Header
	// afterEffect sends the request to the API server all the same: only its answer is lost.
	afterEffect bool
}

func (w *world) startAPIProxy(t *testing.T, name string) *apiProxy {
	t.Helper()
	target, err := url.Parse(w.identity.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(w.identity)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	p := &apiProxy{}
	p.set(nil)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { p.serve(rw, r, forward) }))
	t.Cleanup(func() {
		server.CloseClientConnections() // watches last
		server.Close()
	})
	p.kubeconfig = w.writeKubeconfig(t, name, &rest.Config{Host: server.URL})
	return p
}

// set changes what becomes of requests from now on; nil lets all pass.
func (p *apiProxy) set(treat treatment) {
	if treat == nil {
		treat = func(*http.Request) verdict { return verdict{} }
	}
	p.treat.Store(&treat)
}

func (p *apiProxy) serve(rw http.ResponseWriter, r *http.Request, forward http.Handler) {
	v := (*p.treat.Load())(r)
	if v.delay > 0 {
		select {
		case <-time.After(v.delay):
		case <-r.Context().Done():
			return
		}
	}
	if v.status == 0 {
		forward.ServeHTTP(rw, r)
		return
	}
	if v.afterEffect {
		forward.ServeHTTP(httptest.NewRecorder(), r)
	}
	for name, values := range v.header {
		rw.Header()[name] = values
	}
	http.Error(rw, "the test answers so", v.status)
}

// A wire is a proxy below HTTP that can be cut: then nothing arrives any more, in either direction, and nobody is told.
type wire struct {
	kubeconfig string
	listener   net.Listener
	target     string

	mu    sync.Mutex
	ends  map[net.Conn]struct{}
	whole chan struct{} // closed while nothing is cut
	torn  chan struct{} // closed while the wire is cut
}

func (w *world) startWire(t *testing.T, name string) *wire {
	t.Helper()
	target, err := url.Parse(w.identity.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &wire{listener: listener, target: target.Host, ends: map[net.Conn]struct{}{}, whole: make(chan struct{}), torn: make(chan struct{})}
	close(l.whole)
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { l.accept(ctx, &served) })
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		l.mend() // a connection may be waiting for it
		served.Wait()
	})
	identity := rest.CopyConfig(w.identity)
	identity.Host = "https://" + listener.Addr().String()
	l.kubeconfig = w.writeKubeconfig(t, name, identity)
	return l
}

func (l *wire) accept(ctx context.Context, served *sync.WaitGroup) {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		served.Go(func() { l.carry(ctx, near) })
	}
}

// carry is one connection.
func (l *wire) carry(ctx context.Context, near net.Conn) {
	l.hold(near)
	defer l.drop(near)
	if !l.passable(ctx) {
		return
	}
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.target)
	if err != nil {
		return
	}
	l.hold(far)
	defer l.drop(far)
	var back sync.WaitGroup
	back.Go(func() {
		l.copy(ctx, near, far)
		_ = near.Close()
	})
	l.copy(ctx, far, near)
	_ = far.Close()
	back.Wait()
}

func (l *wire) copy(ctx context.Context, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		// What is read from a cut wire is lost: mend closes the connection before this goes on.
		select {
		case <-l.state(false):
			<-l.state(true)
			return
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil || ctx.Err() != nil {
			return
		}
	}
}

// state is closed while the wire is whole, or while it is cut.
func (l *wire) state(whole bool) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if whole {
		return l.whole
	}
	return l.torn
}

// passable waits until the wire is whole.
func (l *wire) passable(ctx context.Context) bool {
	select {
	case <-l.state(true):
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *wire) hold(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[c] = struct{}{}
}

func (l *wire) drop(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ends, c)
}

// cut lets nothing pass from now on. Connections stay, and new ones are accepted.
func (l *wire) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = make(chan struct{})
	close(l.torn)
}

// mend makes the wire whole. What was on it is lost, and its connections with it.
func (l *wire) mend() {
	l.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.torn = make(chan struct{})
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}

func (l *wire) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.ends {
		_ = c.Close()
	}
}
