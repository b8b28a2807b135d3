package leaks

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// tunnel passes connections on to a server and counts those that are open.
type tunnel struct {
	listener net.Listener
	target   string
	ended    sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]struct{}
	// total counts all that there ever were.
	total int
}

// tunnelTo opens a tunnel to the server at the address until the test ends.
func tunnelTo(t *testing.T, target string) *tunnel {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &tunnel{listener: listener, target: target, open: map[net.Conn]struct{}{}}
	u.ended.Go(u.serve)
	t.Cleanup(u.close)
	return u
}

// through is the client configuration that reaches its server by a tunnel.
func through(t *testing.T, cfg *rest.Config) (*rest.Config, *tunnel) {
	t.Helper()
	server, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	u := tunnelTo(t, server.Host)
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + u.address()
	return cfg, u
}

func (u *tunnel) address() string { return u.listener.Addr().String() }

func (u *tunnel) serve() {
	for {
		near, err := u.listener.Accept()
		if err != nil {
			return // closed
		}
		u.ended.Go(func() { u.pass(near) })
	}
}

// pass copies in both directions until one side closes.
func (u *tunnel) pass(near net.Conn) {
	far, err := net.Dial("tcp", u.target)
	if err != nil {
		_ = near.Close()
		return
	}
	u.count(near, true)
	defer u.count(near, false)
	var copies sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		copies.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = near.Close()
			_ = far.Close()
		})
	}
	copies.Wait()
}

func (u *tunnel) count(conn net.Conn, open bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if open {
		u.open[conn] = struct{}{}
		u.total++
		return
	}
	delete(u.open, conn)
}

// connections is how many are open now.
func (u *tunnel) connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}

func (u *tunnel) close() {
	_ = u.listener.Close()
	u.mu.Lock()
	for conn := range u.open {
		_ = conn.Close()
	}
	u.mu.Unlock()
	u.ended.Wait()
}
