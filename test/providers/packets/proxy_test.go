//go:build linux

package packets_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// proxied is a listener whose connections may begin with a header of the PROXY protocol, as HAProxy
// sends it: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt.
type proxied struct{ net.Listener }

// theConn is the key of a request's connection.
type theConn struct{}

// Accept implements net.Listener.
func (p proxied) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxiedConn{Conn: conn, reader: bufio.NewReader(conn), from: conn.RemoteAddr()}, nil
}

type proxiedConn struct {
	net.Conn
	reader *bufio.Reader
	once   sync.Once
	// from is the client's address, and version that of the header; "" for none.
	from    net.Addr
	version string
}

// RemoteAddr implements net.Conn. It waits for the first bytes.
func (c *proxiedConn) RemoteAddr() net.Addr {
	c.once.Do(c.readHeader)
	return c.from
}

// Read implements net.Conn.
func (c *proxiedConn) Read(b []byte) (int, error) {
	c.once.Do(c.readHeader)
	return c.reader.Read(b)
}

var v2 = []byte("\r\n\r\n\x00\r\nQUIT\n")

func (c *proxiedConn) readHeader() {
	begin, _ := c.reader.Peek(len(v2))
	switch {
	case bytes.HasPrefix(begin, []byte("PROXY ")):
		line, _ := c.reader.ReadString('\n')
		if fields := strings.Fields(line); len(fields) == 6 {
			c.version = "v1"
			c.from, _ = net.ResolveTCPAddr("tcp", net.JoinHostPort(fields[2], fields[4]))
		}
	case bytes.Equal(begin, v2):
		head := make([]byte, 16)
		if _, err := io.ReadFull(c.reader, head); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint16(head[14:]))
		if _, err := io.ReadFull(c.reader, rest); err != nil {
			return
		}
		// The command LOCAL (0) is a check of the load balancer's own.
		if size := map[byte]int{0x11: 4, 0x21: 16}[head[13]]; head[12]&1 == 1 && size > 0 {
			c.version = "v2"
			address, _ := netip.AddrFromSlice(rest[:size])
			port := binary.BigEndian.Uint16(rest[2*size:])
			c.from = net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, port))
		}
	}
}
