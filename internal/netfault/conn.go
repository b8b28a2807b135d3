package netfault

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 32 << 10
	// chunksOnTheWay is how many chunks one direction of a connection buffers during a delay or a
	// stall.
	chunksOnTheWay = 64
	// handshakeTimeout is how long a client may take to see the wrong certificate.
	handshakeTimeout = 10 * time.Second
)

// A conn is a connection of a client, and the matching one to the server.
type conn struct {
	proxy *Proxy
	near  *net.TCPConn
	// closed is closed when the connection ends.
	closed chan struct{}

	// Guarded by the proxy's lock.
	far     *net.TCPConn // nil until the server has been dialled
	lost    bool         // sent data was lost
	aborted bool
}

// abort ends both connections with an RST. The caller holds the proxy's lock.
func (c *conn) abort() {
	if c.aborted {
		return
	}
	c.aborted = true
	close(c.closed)
	abort(c.near)
	if c.far != nil {
		abort(c.far)
	}
}

// abort closes a connection with an RST instead of a FIN.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (c *conn) serve() {
	defer c.end()
	if !c.dial() {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { c.carry(c.far, c.near) })
	ways.Go(func() { c.carry(c.near, c.far) })
	ways.Wait()
}

// end closes the open connections gracefully.
func (c *conn) end() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	delete(c.proxy.open, c)
	if c.aborted {
		return
	}
	_ = c.near.Close()
	if c.far != nil {
		_ = c.far.Close()
	}
}

// dial connects to the server, as soon as the fault allows it.
func (c *conn) dial() bool {
	for {
		fault, changed := c.proxy.state()
		switch fault.kind {
		case reset, refuse:
			c.reset()
			return false
		case wrongCertificate:
			c.showWrongCertificate()
			return false
		case blackHole, stall:
			if fault.kind == blackHole {
				c.lose() // the client speaks first
			}
			select {
			case <-changed:
			case <-c.closed:
				return false
			}
			continue
		}
		far, err := (&net.Dialer{}).DialContext(c.proxy.ctx, "tcp", c.proxy.target)
		if err != nil {
			c.reset() // as if no server listened
			return false
		}
		return c.join(far.(*net.TCPConn))
	}
}

// join takes over the connection to the server.
func (c *conn) join(far *net.TCPConn) bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	if c.aborted {
		_ = far.Close()
		return false
	}
	c.far = far
	return true
}

func (c *conn) reset() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.abort()
}

func (c *conn) lose() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.lost = true
}

func (c *conn) showWrongCertificate() {
	certificate, err := c.proxy.impostor()
	if err == nil {
		_ = c.near.SetDeadline(time.Now().Add(handshakeTimeout))
		// A client that accepts any certificate gets a closed connection.
		_ = tls.Server(c.near,
			&tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
	}
}

// A chunk is the data of one read. An empty one is the end of the stream.
type chunk struct {
	data []byte
	due  time.Time
}

// carry copies one direction until its end.
func (c *conn) carry(to, from *net.TCPConn) {
	onTheWay := make(chan chunk, chunksOnTheWay)
	var reading sync.WaitGroup
	reading.Go(func() { c.read(from, onTheWay) })
	defer reading.Wait()
	for {
		var next chunk
		select {
		case next = <-onTheWay:
		case <-c.closed:
			return
		}
		delivered := c.deliver(to, next)
		if !delivered {
			c.reset()
		}
		if !delivered || len(next.data) == 0 {
			return
		}
	}
}

func (c *conn) read(from *net.TCPConn, onTheWay chan<- chunk) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 && from == c.near {
			c.proxy.sent(buffer[:n])
		}
		fault, _ := c.proxy.state()
		due := time.Time{}
		if fault.kind == delayed {
			due = time.Now().Add(fault.delay)
		}
		if n > 0 && !c.send(onTheWay, chunk{bytes.Clone(buffer[:n]), due}) {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			c.send(onTheWay, chunk{nil, due})
			return
		case err != nil:
			c.reset()
			return
		}
	}
}

func (c *conn) send(onTheWay chan<- chunk, next chunk) bool {
	select {
	case onTheWay <- next:
		return true
	case <-c.closed:
		return false
	}
}

// deliver forwards a chunk when it is due and the fault allows it, or loses it. It reports whether
// the connection continues.
func (c *conn) deliver(to *net.TCPConn, next chunk) bool {
	if wait := time.Until(next.due); wait > 0 {
		select {
		case <-time.After(wait):
		case <-c.closed:
			return false
		}
	}
	for {
		fault, changed := c.proxy.state()
		switch fault.kind {
		case stall:
		case blackHole:
			c.lose()
			if len(next.data) > 0 {
				return true
			}
			// The end is lost, too: the other side is not notified.
		default:
			return c.pass(to, next)
		}
		select {
		case <-changed:
		case <-c.closed:
			return false
		}
	}
}

func (c *conn) pass(to *net.TCPConn, next chunk) bool {
	if len(next.data) == 0 {
		return to.CloseWrite() == nil
	}
	_, err := to.Write(next.data)
	return err == nil
}
