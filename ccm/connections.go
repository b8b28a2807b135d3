package ccm

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/apiconn"
)

// connections makes the connections of some clients to the API server, so that they can be closed
// together. client-go's own cache keeps one transport for all clients of the same settings in the
// process, so an ended term would leave idle connections for 90 s. It is safe for concurrent use.
type connections struct {
	mu         sync.Mutex
	transports map[string]http.RoundTripper
	dialers    []*apiconn.Dialer
}

// client returns a configuration like config whose requests go through these connections. Clients
// of one identity share connections, so different credentials need different identities.
//
// The result has a Transport in place of TLS settings and credentials.
func (c *connections) client(config *rest.Config, identity string) (*rest.Config, error) {
	if config.Transport != nil { // the host owns the connections of its transport
		return apiconn.WithoutRedirects(config), nil
	}
	transport, err := c.transport(config, identity)
	if err != nil {
		return nil, err
	}
	return apiconn.Config(config, transport)
}

// transport returns the transport of an identity, which authenticates and has no user agent.
func (c *connections) transport(config *rest.Config, identity string) (http.RoundTripper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.transports[identity]; ok {
		return found, nil
	}
	transport, dialer, err := apiconn.Transport(config)
	if err != nil {
		return nil, err
	}
	if c.transports == nil {
		c.transports = map[string]http.RoundTripper{}
	}
	c.transports[identity] = transport
	c.dialers = append(c.dialers, dialer)
	return transport, nil
}

// reset closes all connections. The next request opens a new one.
func (c *connections) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dialers {
		d.Reset()
	}
}

// open permits connections again after close.
func (c *connections) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dialers {
		d.Open()
	}
}

// close closes all connections permanently.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dialers {
		d.Close()
	}
}
