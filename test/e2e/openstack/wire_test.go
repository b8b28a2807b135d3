package openstack_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is OpenStack's listener. It counts the open connections.
type wire struct {
	net.Listener
	open atomic.Int64
	// total counts all connections so far.
	total atomic.Int64
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &wire{Listener: l}
}

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w.open.Add(1)
	w.total.Add(1)
	return &counted{Conn: conn, wire: w}, nil
}

type counted struct {
	net.Conn
	wire *wire
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() { c.wire.open.Add(-1) })
	return c.Conn.Close()
}
