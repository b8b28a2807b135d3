// Package apiconn makes connections to an API server that can be closed together, outside
// client-go's cache of transports.
package apiconn

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// Transport returns a transport with its own connections and the credentials of config, but without
// the user agent and the timeout of config. The Dialer closes the connections.
func Transport(config *rest.Config) (http.RoundTripper, *Dialer, error) {
	base := rest.CopyConfig(config)
	base.UserAgent, base.Timeout = "", 0
	dial := base.Dial
	if dial == nil {
		// client-go's default
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	dialer := &Dialer{connections: connrotation.NewDialer(dial)}
	base.Dial = dialer.dial
	if base.Proxy == nil {
		// With the default as a function, client-go does not cache the transport. A key of the
		// cache refers to the functions of its transport, so the cache would keep their owner in
		// memory forever.
		base.Proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.TransportFor(base)
	return transport, dialer, err
}

// Config returns a configuration like config whose requests go through the transport. The transport
// replaces the TLS settings and the credentials.
func Config(config *rest.Config, transport http.RoundTripper) (*rest.Config, error) {
	// The address has a scheme, which depends on the TLS settings.
	address, _, err := rest.DefaultServerUrlFor(config)
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

// Dialer dials until it is closed. Timers of net/http keep it in memory for up to 90 s after its
// last connection was closed, so it must not refer to its owner. It is safe for concurrent use.
type Dialer struct {
	connections *connrotation.Dialer
	closed      atomic.Bool
	// rounds counts the calls of Reset.
	rounds atomic.Int64
}

// dial refuses a connection if all others were closed while it was being dialed. net/http continues
// to dial after the request is canceled, and would keep the connection for 90 s.
func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	round := d.rounds.Load()
	conn, err := d.connections.DialContext(ctx, network, address)
	if err == nil && (d.closed.Load() || d.rounds.Load() != round) {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s: %w", address, net.ErrClosed)
	}
	return conn, err
}

// Reset closes all connections. The next request opens a new one.
func (d *Dialer) Reset() {
	d.rounds.Add(1)
	d.connections.CloseAll()
}

// Open permits connections again after Close.
func (d *Dialer) Open() { d.closed.Store(false) }

// Close closes all connections, and no request opens a new one.
func (d *Dialer) Close() {
	d.closed.Store(true)
	d.Reset()
}
