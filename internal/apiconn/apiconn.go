// Package apiconn makes connections to an API server or a cloud that can be closed together. Those
// to an API server are outside client-go's cache of transports.
package apiconn

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

// Transport returns a transport with its own connections and the credentials of config, but without
// the user agent and the timeout of config. The Dialer closes the connections.
func Transport(config *rest.Config) (http.RoundTripper, *Dialer, error) {
	base := rest.CopyConfig(config)
	base.UserAgent, base.Timeout = "", 0
	if address, _, err := rest.DefaultServerUrlFor(base); err == nil && address.User != nil &&
		base.Username == "" && base.BearerToken == "" && base.BearerTokenFile == "" {
		// net/http would send them from the address of each request, and client-go would log them.
		base.Username = address.User.Username()
		base.Password, _ = address.User.Password()
	}
	dialer := NewDialer(base.Dial)
	base.Dial = dialer.Dial
	if base.Proxy == nil {
		// With the default as a function, client-go does not cache the transport. A key of the
		// cache refers to the functions of its transport, so the cache would keep their owner in
		// memory forever.
		base.Proxy = http.ProxyFromEnvironment
	}
	if base.Transport == nil {
		base.WrapTransport = transport.Wrappers(limitHeaders, base.WrapTransport)
	}
	through, err := rest.TransportFor(base)
	return noRedirects{noSwitch{through}}, dialer, err
}

// maxHeaderBytes limits the header of a response. A field of 7 bytes becomes more than a hundred in
// memory, and the default of net/http is 10 MiB.
const maxHeaderBytes = 64 << 10

// limitHeaders limits the headers of a new transport. A transport that reloads certificates from
// files is of another type, and keeps the default.
func limitHeaders(rt http.RoundTripper) http.RoundTripper {
	if t, ok := rt.(*http.Transport); ok {
		t.MaxResponseHeaderBytes = maxHeaderBytes
	}
	return rt
}

// Config returns a configuration like config whose requests go through the transport. The transport
// replaces the TLS settings and the credentials, also those in the address.
func Config(config *rest.Config, transport http.RoundTripper) (*rest.Config, error) {
	// The address has a scheme, which depends on the TLS settings.
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	address.User = nil
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
//
// A closed connection discards what the kernel has not sent yet. Otherwise the kernel would send it
// after an interruption of the network, perhaps when another process leads.
type Dialer struct {
	connections *connrotation.Dialer
	closed      atomic.Bool
	// rounds counts the calls of Reset.
	rounds atomic.Int64
}

// NewDialer returns a Dialer that dials with a function. Nil: net.Dialer, with client-go's default
// timeouts.
func NewDialer(dial func(context.Context, string, string) (net.Conn, error)) *Dialer {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return &Dialer{connections: connrotation.NewDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
				_ = tcp.SetLinger(0) // fails only if the connection is broken already
			}
			return conn, err
		})}
}

// Dial opens a connection, as net.Dialer.DialContext does. It refuses a connection if all others
// were closed while it was being dialed. net/http continues to dial after the request is canceled,
// and would keep the connection for 90 s.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	round := d.rounds.Load()
	conn, err := d.connections.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.closed.Load() || d.rounds.Load() != round {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s: %w", address, net.ErrClosed)
	}
	return conn, nil
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
