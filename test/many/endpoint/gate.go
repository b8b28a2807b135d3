package endpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// relisten is how long, and how often, the address is asked for again that was given up while the endpoint was down.
const (
	relistenLimit    = 10 * time.Second
	relistenInterval = 20 * time.Millisecond
)

// A gate is the listener of an endpoint. It can be closed and opened again at the same address, and stop all that flows through it.
type gate struct {
	address net.Addr
	// accepted hands connections over; closed ends Accept for good.
	accepted chan net.Conn
	closed   chan struct{}
	// accepting are the goroutines that accept.
	accepting sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while the gate is shut
	conns    map[*gatedConn]struct{}
	// flow is closed while bytes may pass.
	flow  chan struct{}
	ended bool
}

// Ports are taken from below the ranges that systems hand out by themselves (Linux: 32768 up; macOS and Windows: 49152 up), so that nobody
// takes a port while the endpoint is down.
const (
	firstPort    = 20000
	lastPort     = 31999
	portAttempts = 100
)

func openGateOnFreePort() (g *gate, err error) {
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if g, err = openGate(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return g, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

func openGate(address string) (*gate, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	flow := make(chan struct{})
	close(flow)
	g := &gate{
		address: listener.Addr(), accepted: make(chan net.Conn), closed: make(chan struct{}),
		conns: map[*gatedConn]struct{}{}, flow: flow,
	}
	g.accept(listener)
	return g, nil
}

// accept takes connections from listener until that is closed.
func (g *gate) accept(listener net.Listener) {
	g.mu.Lock()
	g.listener = listener
	g.mu.Unlock()
	g.accepting.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			conn := &gatedConn{Conn: c, gate: g, closed: make(chan struct{})}
			if !g.admit(listener, conn) {
				_ = c.Close()
				continue
			}
			select {
			case g.accepted <- conn:
			case <-g.closed:
				_ = conn.Close()
			}
		}
	})
}

// admit counts a connection, unless the gate was shut since.
func (g *gate) admit(listener net.Listener, c *gatedConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != listener {
		return false
	}
	g.conns[c] = struct{}{}
	return true
}

// shut refuses connections and cuts those that there are.
func (g *gate) shut() {
	g.mu.Lock()
	listener := g.listener
	g.listener = nil
	g.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	g.cut()
}

// cut ends all connections.
func (g *gate) cut() {
	g.mu.Lock()
	var conns []*gatedConn
	for c := range g.conns {
		conns = append(conns, c)
	}
	g.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// open undoes shut.
func (g *gate) open() error {
	g.mu.Lock()
	is, ended := g.listener != nil, g.ended
	g.mu.Unlock()
	if is || ended {
		return nil
	}
	for limit := time.Now().Add(relistenLimit); ; {
		listener, err := net.Listen("tcp", g.address.String())
		if err == nil {
			g.accept(listener)
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("listen again at %s: %w", g.address, err)
		}
		time.Sleep(relistenInterval)
	}
}

// freeze lets nothing pass in either direction; connections are still accepted, as by a host whose packets get lost behind it.
func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.flow:
		g.flow = make(chan struct{})
	default:
	}
}

// thaw undoes freeze.
func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.flow:
	default:
		close(g.flow)
	}
}

func (g *gate) connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.accepted:
		return c, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: for good.
func (g *gate) Close() error {
	g.mu.Lock()
	first := !g.ended
	g.ended = true
	g.mu.Unlock()
	if !first {
		return nil
	}
	close(g.closed)
	g.shut()
	g.accepting.Wait()
	return nil
}

// Addr implements net.Listener.
func (g *gate) Addr() net.Addr { return g.address }

// gatedConn is a connection through a gate.
type gatedConn struct {
	net.Conn
	gate   *gate
	once   sync.Once
	closed chan struct{}
}

// pass waits while the gate is frozen.
func (c *gatedConn) pass() error {
	c.gate.mu.Lock()
	flow := c.gate.flow
	c.gate.mu.Unlock()
	select {
	case <-c.closed:
		return net.ErrClosed
	case <-flow:
		return nil
	}
}

// Read implements net.Conn. What has arrived before the gate was frozen, and is read after, waits too.
func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if passed := c.pass(); passed != nil {
		return 0, errors.Join(passed, err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *gatedConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
	})
	return c.Conn.Close()
}
