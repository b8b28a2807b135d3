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

// generation is everything that depends on one configuration: connections and login. A new
// configuration creates a new generation, while requests of the old one finish.
type generation struct {
	config       cloudconf.Config
	availability string
	transport    *http.Transport
	connections  *connections
	// http is the pipeline without the token; see [Clients].
	http    http.RoundTripper
	session *session

	// Guarded by Clients.mu. users counts the requests in flight.
	services map[string]*gophercloud.ServiceClient
	users    int
	retired  bool
}

// newGeneration reads the certificate and key files of the configuration and sends no request.
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
	k := &keystone{credentials: who, http: g.http, userAgent: o.userAgent()}
	g.session = newSession(k.login, o)
	return g, nil
}

// newPipeline builds the layers that requests and logins pass, from the outside to the inside.
func newPipeline(cfg cloudconf.Config, o Options, transport http.RoundTripper) http.RoundTripper {
	return &retries{
		max: cfg.Client.MaxRetries, clock: o.Clock, random: o.random,
		observer: o.Observer, logger: o.Logger,
		next: &limits{
			limiter: newLimiter(cfg.Client), clock: o.Clock, observer: o.Observer,
			next: &attempts{
				timeout: cfg.Metadata.RequestTimeout, clock: o.Clock,
				observer: o.Observer, logger: o.Logger,
				next: o.Transport(transport),
			},
		},
	}
}

// disconnect closes all connections permanently. It is called when no request is in flight, but an
// HTTP/2 connection may still be busy, and another may still be dialled, so closing idle
// connections is not enough.
func (g *generation) disconnect() {
	g.transport.CloseIdleConnections()
	g.connections.close()
}

// connections dials until it is closed, and tracks the open connections.
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
		// close may have run while this connection was dialled.
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
		// The default of net/http is 2 idle connections per host.
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
			return nil, fmt.Errorf("ca-file: %s contains no PEM certificate", g.CAFile)
		}
	}
	if g.CAFileContents != "" && !secure.RootCAs.AppendCertsFromPEM([]byte(g.CAFileContents)) {
		return nil, errors.New("cafilecontents: contains no PEM certificate")
	}
	switch {
	case g.CertFile != "" && g.KeyFile != "":
		own, err := tls.LoadX509KeyPair(g.CertFile, g.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert-file and key-file: %w", err)
		}
		secure.Certificates = []tls.Certificate{own}
	case g.CertFile != "" || g.KeyFile != "":
		return nil, errors.New("cert-file and key-file must both be set or both be empty")
	}
	return secure, nil
}
