package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/time/rate"

	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/provider/internal/kit/ratelimit"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// generation is everything that depends on one configuration: connections and login. A new
// configuration creates a new generation, while requests of the old one finish.
type generation struct {
	*access
	config cloudconf.Config
	signer signer
	// own limits the requests of one cluster.
	own *ratelimit.Queue
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
	open := newAccess
	if o.Shared != nil {
		open = o.Shared.join
	}
	of, err := open(cfg.Global, o)
	if err != nil {
		return nil, err
	}
	g := &generation{
		access: of, config: cfg, report: o.Trouble,
		services: map[string]*gophercloud.ServiceClient{},
	}
	g.own = ratelimit.New(rate.Limit(cfg.Client.RequestRate), cfg.Client.RequestBurst, o.Clock)
	attempt := func(next http.RoundTripper) http.RoundTripper {
		return &attempts{next: next, timeout: cfg.Metadata.RequestTimeout, options: o}
	}
	retry := func(next http.RoundTripper) http.RoundTripper {
		return &retries{next: next, max: cfg.Client.MaxRetries, options: o}
	}
	waited := o.Observer.RateLimitWaited
	own := &ratelimit.Transport{
		Next: attempt(o.Transport(g.guarded)), Queue: g.own, Waited: waited,
	}
	g.http = retry(own)
	g.detached = g.http
	if g.isShared() {
		own.Next = &ratelimit.Transport{
			Next: own.Next, Queue: g.queue, Pauses: true, Waited: waited,
			FlowOf: func(context.Context) ratelimit.Flow {
				return ratelimit.Flow{Cluster: o.Cluster}
			},
		}
		g.detached = retry(&ratelimit.Transport{
			Next: attempt(g.guarded), Queue: g.queue, Pauses: true, Waited: waited,
			// The requests of one cluster must not delay a list for which several clusters wait.
			FlowOf: func(ctx context.Context) ratelimit.Flow {
				return ratelimit.Flow{Operation: callOf(ctx).operation}
			},
		})
	}
	g.signer = signer{
		observer: o.Observer, logger: o.Logger,
		login: func(ctx context.Context) (*identity, error) {
			return g.keystone.login(ctx, g.detached, o.userAgent())
		},
	}
	g.answers.Follow(o.Trouble)
	return g, nil
}

// disconnect ends the use of the access. It is called when no request is in flight.
func (g *generation) disconnect() {
	g.left.Do(func() {
		g.own.Close()
		g.leave(g.report)
	})
}

// newTransport returns a transport of HTTP/1.1: a canceled request ends its connection, and its
// unsent bytes with it. With HTTP/2 they would still be sent on the connection that other requests
// use.
func newTransport(g cloudconf.Global) (*http.Transport, error) {
	secure, err := newTLS(g)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: 10 * time.Second,
		// The default of net/http is 2 idle connections per host.
		MaxIdleConns:        100,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
	}, nil
}

func newTLS(g cloudconf.Global) (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: g.TLSInsecure}
	authorities := []byte(g.CAFileContents)
	if g.CAFile != "" {
		var err error
		if authorities, err = configfile.Read(g.CAFile); err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
	}
	if len(authorities) > 0 || g.CAFile != "" {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s contains no PEM certificate",
				cmp.Or(g.CAFile, "cafilecontents"))
		}
	}
	// One without the other has no effect, as in OCCM.
	if g.CertFile != "" && g.KeyFile != "" {
		own, err := loadPair(g.CertFile, g.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert-file and key-file: %w", err)
		}
		secure.Certificates = []tls.Certificate{own}
	}
	return secure, nil
}

func loadPair(certFile, keyFile string) (tls.Certificate, error) {
	certificate, err := configfile.Read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := configfile.Read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}
