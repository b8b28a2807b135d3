package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/client-go/util/connrotation"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// generation is all that is made of one configuration: connections, and who is logged in. A new configuration makes a new one,
// while requests of the old one come to their end.
type generation struct {
	config       cloudconf.Config
	availability string
	transport    *http.Transport
	connections  *connections
	// http is the way to OpenStack, but for the token; see [Clients] for its parts.
	http    http.RoundTripper
	session *session

	// What follows is guarded by Clients.mu. users are the requests that go this way.
	services map[string]*gophercloud.ServiceClient
	users    int
	retired  bool
}

// newGeneration reads the files of certificates and keys that the configuration names, and asks no network.
func newGeneration(cfg cloudconf.Config, o Options) (*generation, error) {
	who, err := newCredentials(cfg.Global)
	if err != nil {
		return nil, err
	}
	endpointType, err := availability(cfg.Global.EndpointType)
	if err != nil {
		return nil, err
	}
	connections := newConnections()
	transport, err := newTransport(cfg.Global, connections)
	if err != nil {
		return nil, err
	}
	g := &generation{
		config: cfg, availability: endpointType, transport: transport, connections: connections,
		http:     newPipeline(cfg, o, transport),
		services: map[string]*gophercloud.ServiceClient{},
	}
	door := &keystone{credentials: who, http: g.http, userAgent: o.userAgent()}
	g.session = newSession(door.login, o)
	return g, nil
}

// newPipeline is what each request goes through, with the token or to get one; from the outside to the inside.
func newPipeline(cfg cloudconf.Config, o Options, transport http.RoundTripper) http.RoundTripper {
	return &retries{
		max: cfg.Client.MaxRetries, clock: o.Clock, random: o.random, observer: o.Observer, logger: o.Logger,
		next: &limits{
			limiter: newLimiter(cfg.Client), clock: o.Clock, observer: o.Observer,
			next: &attempts{
				timeout: cfg.Metadata.RequestTimeout, clock: o.Clock, observer: o.Observer, logger: o.Logger,
				next: o.Transport(transport),
			},
		},
	}
}

// disconnect closes all connections, for good. It is called when no request is under way, but its connection may be busy for a moment yet, if it is
// one of HTTP/2, or may still be made: closing those that are idle is not enough.
func (g *generation) disconnect() {
	g.transport.CloseIdleConnections()
	g.connections.close()
}

// connections makes connections, until it is closed. It knows those that are open.
type connections struct {
	dialer *connrotation.Dialer
	closed atomic.Bool
}

func newConnections() *connections {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &connections{dialer: connrotation.NewDialer(dialer.DialContext)}
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err == nil && c.closed.Load() {
		// It may have come after all were closed.
		_ = conn.Close()
		return nil, ErrClosed
	}
	return conn, err
}

func (c *connections) close() {
	c.closed.Store(true)
	c.dialer.CloseAll()
}

func newTransport(g cloudconf.Global, c *connections) (*http.Transport, error) {
	secure, err := newTLS(g)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         c.dial,
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		// net/http keeps 2 connections to a host, and makes a new one for each request beyond that.
		MaxIdleConns:        100,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
	}, nil
}

func newTLS(g cloudconf.Global) (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: g.TLSInsecure}
	if g.CAFile != "" || g.CAFileContents != "" {
		secure.RootCAs = x509.NewCertPool()
	}
	if g.CAFile != "" {
		authorities, err := os.ReadFile(g.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
		if !secure.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("ca-file: no certificate in PEM in %s", g.CAFile)
		}
	}
	if g.CAFileContents != "" && !secure.RootCAs.AppendCertsFromPEM([]byte(g.CAFileContents)) {
		return nil, errors.New("cafilecontents: no certificate in PEM")
	}
	switch {
	case g.CertFile != "" && g.KeyFile != "":
		own, err := tls.LoadX509KeyPair(g.CertFile, g.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert-file and key-file: %w", err)
		}
		secure.Certificates = []tls.Certificate{own}
	case g.CertFile != "" || g.KeyFile != "":
		return nil, errors.New("cert-file and key-file belong together: one of them is not set")
	}
	return secure, nil
}
