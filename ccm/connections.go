package ccm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// connections makes the connections of some clients to the API server, so that they can be closed
// together. client-go's own cache keeps one transport for all clients of the same settings in the
// process, so an ended term would leave idle connections for 90 s. It is safe for concurrent use.
type connections struct {
	mu         sync.Mutex
	transports map[string]http.RoundTripper
	dialers    []*closableDialer
}

// client returns a configuration like config whose requests go through these connections. Clients
// of one identity share them; identity must tell apart configurations of different credentials.
//
// The result has a Transport in place of TLS settings and credentials.
func (c *connections) client(config *rest.Config, identity string) (*rest.Config, error) {
	if config.Transport != nil {
		return config, nil // the host's, which owns its connections
	}
	// With the scheme, which depends on the TLS settings.
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := c.transport(config, identity)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:                      address.String(),
		APIPath:                   config.APIPath,
		ContentConfig:             config.ContentConfig,
		UserAgent:                 config.UserAgent,
		QPS:                       config.QPS,
		Burst:                     config.Burst,
		RateLimiter:               config.RateLimiter,
		WarningHandler:            config.WarningHandler,
		WarningHandlerWithContext: config.WarningHandlerWithContext,
		Timeout:                   config.Timeout,
		Transport:                 transport,
	}, nil
}

// transport returns the transport of an identity, which authenticates and has no user agent.
func (c *connections) transport(config *rest.Config, identity string) (http.RoundTripper, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.transports[identity]; ok {
		return found, nil
	}
	base := rest.CopyConfig(config)
	base.UserAgent, base.Timeout = "", 0
	dial := base.Dial
	if dial == nil {
		// client-go's default
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	dialer := newClosableDialer(dial)
	base.Dial = dialer.dial
	if base.Proxy == nil {
		// The default Proxy, given as a function, keeps client-go from caching the transport. The
		// cache's keys hold the functions of their transports, and so would hold the term. The
		// default, given as a function, keeps client-go from putting the transport into its cache.
		// The keys of the cache hold the functions of their transports, and so would hold the term.
		base.Proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.TransportFor(base)
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
		d.closeAll()
	}
}

// close closes all connections permanently.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dialers {
		d.closed.Store(true)
		d.closeAll()
	}
}

// closableDialer dials until it is closed. Timers of net/http hold it for up to 90 s after its last
// connection was closed, so it must not hold the term.
type closableDialer struct {
	connections *connrotation.Dialer
	closed      atomic.Bool
	// rounds counts the calls of closeAll.
	rounds atomic.Int64
}

func newClosableDialer(dial connrotation.DialFunc) *closableDialer {
	return &closableDialer{connections: connrotation.NewDialer(dial)}
}

// dial refuses a connection if all others were closed while it was being dialed. net/http continues
// to dial after the request is cancelled, and would keep the connection for 90 s.
func (d *closableDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	round := d.rounds.Load()
	conn, err := d.connections.DialContext(ctx, network, address)
	if err == nil && (d.closed.Load() || d.rounds.Load() != round) {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s: %w", address, net.ErrClosed)
	}
	return conn, err
}

func (d *closableDialer) closeAll() {
	d.rounds.Add(1)
	d.connections.CloseAll()
}
