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
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/client-go/util/connrotation"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// generation is everything that depends on one configuration: connections and login. A new
// configuration creates a new generation, while requests of the old one finish.
type generation struct {
	*access
	config       cloudconf.Config
	availability string
	signer       signer
	// http is the pipeline without the token; see [Clients].
	http http.RoundTripper
	// detached is the pipeline of requests that serve several clusters: logins and shared reads.
	// They do not pass the fence of one term; see [Clients.pass]. Without sharing it is http.
	detached http.RoundTripper
	left     sync.Once
	report   *trouble.Report

	// Guarded by Clients.mu. requests counts those in flight.
	services map[string]*gophercloud.ServiceClient
	requests int
	retired  bool
}

// newGeneration reads the certificate and key files of the configuration and sends no request.
func newGeneration(cfg cloudconf.Config, o Options) (*generation, error) {
	endpointType, err := availability(cfg.Global.EndpointType)
	if err != nil {
		return nil, err
	}
	open := newAccess
	if o.Shared != nil {
		open = o.Shared.join
	}
	of, err := open(cfg.Global, o)
	if err != nil {
		return nil, err
	}
	g := &generation{
		access: of, config: cfg, availability: endpointType, report: o.Trouble,
		services: map[string]*gophercloud.ServiceClient{},
	}
	own := &limits{limiter: newLimiter(cfg.Client), clock: o.Clock, observer: o.Observer}
	fenced := newAttempts(cfg, o, o.Transport(g.transport))
	if g.isShared() {
		own.next = &fair{
			next: fenced, queue: g.queue, observer: o.Observer,
			flowOf: func(context.Context) flow { return flow{cluster: o.Cluster} },
		}
		g.detached = newRetries(cfg, o, &fair{
			next: newAttempts(cfg, o, g.transport), queue: g.queue, observer: o.Observer,
			// A list that several clusters wait for is delayed by no cluster's requests.
			flowOf: func(ctx context.Context) flow {
				return flow{operation: callOf(ctx).operation}
			},
		})
		g.http = newRetries(cfg, o, own)
	} else {
		own.next = fenced
		g.http = newRetries(cfg, o, own)
		g.detached = g.http
	}
	g.signer = signer{
		observer: o.Observer, logger: o.Logger,
		login: func(ctx context.Context) (*identity, error) {
			return g.keystone.login(ctx, g.detached, o.userAgent())
		},
	}
	g.session.follow(o.Trouble)
	return g, nil
}

func newRetries(cfg cloudconf.Config, o Options, next http.RoundTripper) *retries {
	return &retries{
		next: next, max: cfg.Client.MaxRetries, clock: o.Clock, random: o.random,
		observer: o.Observer, logger: o.Logger,
	}
}

func newAttempts(cfg cloudconf.Config, o Options, next http.RoundTripper) *attempts {
	return &attempts{
		next: next, timeout: cfg.Metadata.RequestTimeout, clock: o.Clock,
		observer: o.Observer, logger: o.Logger,
	}
}

// disconnect ends the use of the access. It is called when no request is in flight.
func (g *generation) disconnect() { g.left.Do(func() { g.leave(g.report) }) }

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
