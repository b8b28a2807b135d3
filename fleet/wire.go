package fleet

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// wireFactor is how many times as fast as bodies connections are read: TLS, HTTP and headers
	// need some bytes, too.
	wireFactor = 4
	// minWireBurst is for the certificates and headers of many connections at once.
	minWireBurst = 1 << 20
)

// A wireLimit limits how fast connections to one cluster's services are read. A peer can send
// without an end what never becomes a part of a body, and so counts for no other limit: compressed
// parts that are empty, or frames of HTTP/2. It is safe for concurrent use.
type wireLimit struct{ rate atomic.Pointer[rate.Limiter] }

// set begins the limit, for connections that are open, too.
func (w *wireLimit) set(bytesPerSecond int64) {
	w.rate.Store(rate.NewLimiter(rate.Limit(wireFactor*bytesPerSecond),
		int(max(minWireBurst, wireFactor*burstSeconds*bytesPerSecond))))
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dial returns a function that dials with the given one, or with client-go's default timeouts.
func (w *wireLimit) dial(with dialFunc) dialFunc {
	if with == nil {
		with = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := with(ctx, network, address)
		if err != nil {
			return nil, err
		}
		limited := &limitedConn{Conn: conn, wire: w}
		limited.open, limited.close = context.WithCancel(context.Background())
		return limited, nil
	}
}

// limitedConn is a connection that is read slowly.
type limitedConn struct {
	net.Conn
	wire *wireLimit
	// open ends when the connection is closed.
	open  context.Context
	close context.CancelFunc
}

// Read implements net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), readChunk)])
	if limit := c.wire.rate.Load(); limit != nil && n > 0 {
		if limit.WaitN(c.open, n) != nil {
			return 0, net.ErrClosed
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.close()
	return c.Conn.Close()
}

// SetLinger is that of net.TCPConn.
func (c *limitedConn) SetLinger(seconds int) error {
	if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
