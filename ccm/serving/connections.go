package serving

import (
	"net"
	"net/http"
	"sync"

	"github.com/fxccm/fxccm/internal/inflight"
)

// connections tracks the connections of an http.Server, so that a stop can wait for their
// goroutines and close connections without a request at once: http.Server.Shutdown gives them five
// seconds.
type connections struct {
	tasks *inflight.Set

	mu      sync.Mutex
	open    map[net.Conn]*connection
	refused bool
}

type connection struct {
	end  func()
	used bool
}

func newConnections(tasks *inflight.Set) *connections {
	return &connections{tasks: tasks, open: map[net.Conn]*connection{}}
}

// changed implements http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = &connection{end: c.tasks.Begin(inflight.Activity{Name: "connection"})}
		if c.refused {
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		if known, ok := c.open[conn]; ok {
			delete(c.open, conn)
			known.end()
		}
	default:
		if known, ok := c.open[conn]; ok {
			known.used = true
		}
	}
}

// refuse closes all connections that have not sent a request, and all new ones.
func (c *connections) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = true
	for conn, known := range c.open {
		if !known.used {
			_ = conn.Close()
		}
	}
}
