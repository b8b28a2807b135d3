package netfault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/freeport"
)

// How long, and how often, Set tries to reopen the port that [Refuse] has closed.
const (
	relistenLimit    = 10 * time.Second
	relistenInterval = 20 * time.Millisecond
)

// errNotHTTP is the error of a fault that needs requests.
var errNotHTTP = errors.New("this proxy does not read requests; use ListenAPI or ListenHTTP")

// A Proxy forwards TCP connections to a server, and breaks them as the test sets its fault. Its
// methods are safe for concurrent use.
type Proxy struct {
	target string
	port   freeport.Port
	// http is nil if the proxy does not read requests.
	http *server

	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	// serving waits for all goroutines.
	serving sync.WaitGroup
	// setting serializes Set and Close.
	setting sync.Mutex

	impostor func() (tls.Certificate, error)

	mu       sync.Mutex
	fault    Fault
	onSend   func([]byte)
	changed  chan struct{} // closed when fault changes
	listener net.Listener  // nil while connections are refused
	open     map[*conn]struct{}
}

// Listen opens a proxy, at a loopback address and a free port, in front of the server at target,
// "host:port". The server may start later. The proxy must be closed.
func Listen(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("open a proxy: the target: %w", err)
	}
	port, err := freeport.Choose()
	if err != nil {
		return nil, fmt.Errorf("open a proxy for %s: %w", target, err)
	}
	listener, err := net.Listen("tcp", port.Address())
	if err != nil {
		_ = port.Close()
		return nil, fmt.Errorf("open a proxy for %s: %w", target, err)
	}
	p := &Proxy{
		target: target, port: port, changed: make(chan struct{}),
		open: map[*conn]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.impostor = sync.OnceValues(func() (tls.Certificate, error) {
		_, certificate, err := newCertificate("an authority that no client trusts")
		return certificate, err
	})
	p.accept(listener)
	return p, nil
}

// Addr is the address of the proxy, "127.0.0.1:port". It stays the same while connections are
// refused.
func (p *Proxy) Addr() string { return p.port.Address() }

// Connections is the number of client connections of the proxy.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// OnSend calls f with the data that clients send, before it is forwarded. f may be called
// concurrently. A fault that f sets applies to the data.
func (p *Proxy) OnSend(f func(data []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onSend = f
}

// sent reports data of a client.
func (p *Proxy) sent(data []byte) {
	p.mu.Lock()
	f := p.onSend
	p.mu.Unlock()
	if f != nil {
		f(data)
	}
}

// Set replaces the current fault. It returns an error, and changes nothing, if the fault needs a
// proxy that reads requests and this one does not, if the proxy is closed, or if the port cannot be
// reopened after [Refuse].
func (p *Proxy) Set(f Fault) error {
	p.setting.Lock()
	defer p.setting.Unlock()
	if f.readsRequests() && p.http == nil {
		return fmt.Errorf("%s: %w", f, errNotHTTP)
	}
	if p.ctx.Err() != nil {
		return fmt.Errorf("%s: the proxy is closed", f)
	}
	if f.kind != refuse && p.listening() == nil {
		listener, err := relisten(p.port.Address())
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		// A connection that is accepted meanwhile gets a reset.
		defer p.accept(listener)
	}
	p.change(f)
	if f.kind == refuse {
		p.shut()
	}
	return nil
}

// change makes f the fault, and resets connections that do not survive the change.
func (p *Proxy) change(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	for c := range p.open {
		if f.endsConnections() || f.kind != blackHole && c.lost {
			c.abort()
		}
	}
}

func (p *Proxy) listening() net.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listener
}

// shut closes the port.
func (p *Proxy) shut() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
}

func relisten(address string) (net.Listener, error) {
	for limit := time.Now().Add(relistenLimit); ; {
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return listener, nil
		}
		if time.Now().After(limit) {
			return nil, fmt.Errorf("listen at %s again: %w", address, err)
		}
		time.Sleep(relistenInterval)
	}
}

// accept accepts connections until listener is closed.
func (p *Proxy) accept(listener net.Listener) {
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			c := &conn{proxy: p, near: near.(*net.TCPConn), closed: make(chan struct{})}
			if !p.admit(listener, c) {
				abort(c.near)
				continue
			}
			p.serving.Go(c.serve)
		}
	})
}

// admit counts a connection, unless the port was closed meanwhile.
func (p *Proxy) admit(listener net.Listener, c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		return false
	}
	p.open[c] = struct{}{}
	return true
}

// state is the current fault, and a channel that is closed when it changes.
func (p *Proxy) state() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// Close closes the port, resets all connections, and waits until all goroutines of the proxy have
// ended. It may be called more than once.
func (p *Proxy) Close() error {
	p.setting.Lock()
	defer p.setting.Unlock()
	p.cancel()
	p.shut()
	p.mu.Lock()
	for c := range p.open {
		c.abort()
	}
	p.mu.Unlock()
	p.serving.Wait()
	_ = p.port.Close()
	if p.http == nil {
		return nil
	}
	return p.http.close()
}
