// Package client creates the clients of the OpenStack services. It logs in, and authenticates,
// limits, retries, measures and, after the term, refuses their requests.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// ErrClosed is wrapped by all errors of closed Clients.
var ErrClosed = errors.New("the clients of OpenStack are closed")

// Options are the optional dependencies of Clients.
type Options struct {
	// Transport wraps the HTTP transport in the fence of the term. An error that wraps
	// fence.ErrClosed is not retried.
	Transport func(http.RoundTripper) http.RoundTripper
	// Guard changes each new transport of HTTP before its first request, and returns it or a
	// transport around it. Nil: none.
	Guard func(*http.Transport) http.RoundTripper
	// UserAgents precede "fxccm" in the header User-Agent.
	UserAgents []string
	Logger     logr.Logger
	Observer   Observer
	// Trouble receives the results of logins. It may be nil.
	Trouble *trouble.Report
	// Clock is the clock of limits and pauses. Default: the real one.
	Clock clock.Clock

	// Reload reads the configuration again. Clients call it when one of Files, or of the
	// certificate and key files in the configuration, has changed. Nil: only certificates and keys
	// are read again.
	Reload func(context.Context) (cloudconf.Config, error)
	// Files are the files that Reload reads.
	Files []string

	// Shared shares the login, the connections, reads and a request budget with other Clients of
	// the same access. Cluster is the owner of the requests: the clusters take turns. Nil: nothing
	// is shared.
	Shared  *Shared
	Cluster string

	random func() float64
}

func (o Options) withDefaults() (Options, error) {
	if o.Transport == nil {
		o.Transport = func(next http.RoundTripper) http.RoundTripper { return next }
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	for _, agent := range o.UserAgents {
		if agent == "" || strings.ContainsFunc(agent, func(r rune) bool {
			return r < ' ' || r > '~'
		}) {
			return o, fmt.Errorf("user agent %q contains characters that are not allowed in a "+
				"header", agent)
		}
	}
	return o, nil
}

func (o Options) userAgent() gophercloud.UserAgent {
	var agent gophercloud.UserAgent
	agent.Prepend(append(slices.Clone(o.UserAgents), "fxccm")...)
	return agent
}

// Clients are the clients of one cloud's services. Several Clients share no state, except through
// Options.Shared. They are safe for concurrent use.
//
// A request passes these layers, from the outside to the inside:
//
// 1. the token; if the service rejects it, fxccm gets a new token and sends the request again;
// 2. retries after transient failures;
// 3. the rate limit, for each attempt, and that of [Shared];
// 4. timeout, metrics and log of one attempt, until the last byte of the response;
// 5. Options.Transport, the fence;
// 6. the HTTP transport, with the proxy of the environment.
//
// A login passes 2 to 6. A login and a read for several clusters do not pass 5: each waiting term
// passes its own fence, and the request is canceled when no term waits any more.
type Clients struct {
	options Options
	// closing is canceled by Close.
	closing context.Context
	close   context.CancelCauseFunc
	opened  time.Time
	watcher sync.WaitGroup
	// changing is held while a new configuration logs in.
	changing sync.Mutex

	mu       sync.Mutex
	current  *generation
	requests sync.WaitGroup
}

// New reads the certificate and key files of a configuration that [cloudconf.Validate] accepts. The
// first client that is requested logs in. The caller must Close the Clients.
func New(cfg cloudconf.Config, o Options) (*Clients, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	seen := fingerprint(watched(o, cfg))
	first, err := newGeneration(cfg, o)
	if err != nil {
		return nil, err
	}
	c := &Clients{options: o, current: first, opened: o.Clock.Now()}
	c.closing, c.close = context.WithCancelCause(context.Background())
	if len(watched(o, cfg)) > 0 || o.Reload != nil {
		w := &watch{clients: c, options: o, seen: seen}
		c.watcher.Go(func() { w.run(c.closing) })
	}
	return c, nil
}

// Compute returns the client of Nova. It stays the same until the configuration changes and must
// not be modified: set the Microversion on a copy. It returns an error if the catalog has no
// Nova in this region and for this interface, and a [*failure.LoginError] if the login failed.
// Each login reads the catalog again.
func (c *Clients) Compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceCompute, openstack.NewComputeV2)
}

// Network returns the client of Neutron; see Compute.
func (c *Clients) Network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceNetwork, openstack.NewNetworkV2)
}

// LoadBalancer returns the client of Octavia; see Compute.
func (c *Clients) LoadBalancer(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceLoadBalancer, openstack.NewLoadBalancerV2)
}

// KeyManager returns the client of Barbican; see Compute.
func (c *Clients) KeyManager(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceKeyManager, openstack.NewKeyManagerV1)
}

// Project is the ID of the project of the token.
func (c *Clients) Project(ctx context.Context) (string, error) {
	g, who, err := c.login(ctx, nil)
	if err != nil {
		return "", err
	}
	c.release(g)
	if who.project == "" {
		return "", &failure.CatalogError{
			Service: trouble.Keystone,
			Message: "the token has no project; set tenant-id, or tenant-name and its domain",
		}
	}
	return who.project, nil
}

// Close cancels all requests, waits for their end and closes the connections. It can be called
// several times.
func (c *Clients) Close() error {
	c.mu.Lock()
	c.close(ErrClosed)
	c.mu.Unlock()
	c.watcher.Wait()
	c.mu.Lock()
	last := c.current
	c.mu.Unlock()
	last.endSession()
	c.requests.Wait()
	last.disconnect()
	return nil
}

type constructor func(*gophercloud.ProviderClient,
	gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)

func (c *Clients) service(ctx context.Context, service string,
	build constructor,
) (*gophercloud.ServiceClient, error) {
	g, who, err := c.login(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer c.release(g)
	endpoint, err := g.endpoint(who, service)
	if err != nil {
		var missing *failure.CatalogError
		if errors.As(err, &missing) && missing.Setting != "" {
			// Until the setting is right, no request can end this.
			g.answers.Note(missing.Service, err)
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := g.services[service]; kept != nil && kept.Endpoint == endpoint {
		return kept, nil
	}
	made, err := build(c.provider(service, endpoint), gophercloud.EndpointOpts{})
	if err != nil {
		return nil, fmt.Errorf("client of service %s: %w", service, err)
	}
	g.services[service] = made
	return made, nil
}

// endpoint is the address of the service in the configuration or, without one, in the catalog.
func (g *generation) endpoint(who *identity, service string) (string, error) {
	global := g.config.Global
	configured := map[string]string{
		serviceCompute: global.ComputeEndpoint, serviceNetwork: global.NetworkEndpoint,
		serviceLoadBalancer: global.LoadBalancerEndpoint,
		serviceKeyManager:   global.KeyManagerEndpoint,
	}[service]
	if configured != "" {
		return shape(service, configured)
	}
	return who.endpoint(service, cmp.Or(global.EndpointType, "public"), global.Region)
}

// provider is gophercloud's part of a service client. The transport handles the token, so the
// provider never changes and is safe for concurrent use.
func (c *Clients) provider(service, endpoint string) *gophercloud.ProviderClient {
	return &gophercloud.ProviderClient{
		HTTPClient: http.Client{
			Transport:     &authenticated{clients: c, service: service},
			CheckRedirect: sameService,
		},
		UserAgent:       c.options.userAgent(),
		RetryFunc:       c.explain(service),
		EndpointLocator: func(gophercloud.EndpointOpts) (string, error) { return endpoint, nil },
	}
}

// maxLoggedError limits the text of an error in the log, in characters. It contains the response.
const maxLoggedError = 4096

// explain returns gophercloud's hook for each failed request. It never retries: the errors become
// short, and the URL and the body go to the log.
func (c *Clients) explain(service string) gophercloud.RetryFunc {
	return func(
		_ context.Context, method, address string, _ *gophercloud.RequestOpts, err error, _ uint,
	) error {
		var sent *url.Error
		var login *failure.LoginError
		switch {
		case errors.As(err, &sent) && errors.As(err, &login):
			return sent.Err // the request was not sent
		case isEnded(err):
			return err
		}
		c.options.Logger.V(4).Info("Request to OpenStack failed", "error",
			printable.Text(err.Error(), maxLoggedError))
		path := ""
		if at, invalid := url.Parse(address); invalid == nil {
			path = at.Path
		}
		return failure.New(serviceName(service), operation(service, method, path), err)
	}
}

// serviceName is the name of a service for people.
func serviceName(service string) string {
	switch service {
	case serviceCompute:
		return "Nova"
	case serviceNetwork:
		return "Neutron"
	case serviceLoadBalancer:
		return "Octavia"
	case serviceKeyManager:
		return "Barbican"
	}
	return "OpenStack"
}

// login returns the current generation and its identity. The caller releases the generation unless
// there is an error.
func (c *Clients) login(ctx context.Context, stale *identity) (*generation, *identity, error) {
	if g := flightOf(ctx); g != nil {
		// The read is for several clusters, so it outlives these Clients.
		who, err := g.session.identity(ctx, stale, g.signer)
		if err == nil {
			c.use(g)
		}
		return g, who, err
	}
	for {
		g := c.acquire()
		who, err := c.identity(ctx, g, stale)
		if err == nil {
			return g, who, nil
		}
		replaced := c.release(g)
		switch {
		case c.closing.Err() != nil:
			return nil, nil, ErrClosed
		case ctx.Err() != nil || !replaced:
			return nil, nil, err
		}
	}
}

// identity logs in if needed. A shared login serves all clusters and passes no fence, so each
// waiting term passes its own.
func (c *Clients) identity(
	ctx context.Context, g *generation, stale *identity,
) (who *identity, err error) {
	if who = g.session.known(stale); who != nil {
		return who, nil
	}
	if !g.isShared() {
		return g.session.identity(ctx, stale, g.signer)
	}
	ctx, done := c.untilClosed(ctx)
	defer done()
	err = c.pass(ctx, http.MethodPost, g.authURL(), func(ctx context.Context) (err error) {
		who, err = g.session.identity(ctx, stale, g.signer)
		return err
	})
	return who, err
}

func (c *Clients) acquire() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.requests++
	return c.current
}

func (c *Clients) use(g *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.requests++
}

// release reports whether the generation was replaced. The last user of a replaced generation
// closes its connections.
func (c *Clients) release(g *generation) (replaced bool) {
	c.mu.Lock()
	g.requests--
	isUnused := g.retired && g.requests == 0
	replaced = g != c.current
	c.mu.Unlock()
	if isUnused {
		g.disconnect()
	}
	return replaced
}

// replace switches new requests to the next generation.
func (c *Clients) replace(next *generation) {
	c.mu.Lock()
	old := c.current
	c.current = next
	c.mu.Unlock()
	c.retire(old)
}

// retire is called when no new request uses the generation.
func (c *Clients) retire(g *generation) {
	g.endSession()
	c.mu.Lock()
	g.retired = true
	isUnused := g.requests == 0
	c.mu.Unlock()
	if isUnused {
		g.disconnect()
	}
}

// enter registers a request. The returned context is canceled when the Clients are closed, unless
// the request is one of a shared read.
func (c *Clients) enter(ctx context.Context) (_ context.Context, done func(), _ error) {
	if flightOf(ctx) != nil {
		return ctx, func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return nil, nil, ErrClosed
	}
	c.requests.Add(1)
	ctx, cancel := c.untilClosed(ctx)
	return ctx, func() {
		cancel()
		c.requests.Done()
	}, nil
}

func (c *Clients) untilClosed(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
