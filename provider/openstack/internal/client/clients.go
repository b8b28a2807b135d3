// Package client is the way to OpenStack: it logs in, and makes clients of the services whose requests are authenticated,
// limited, repeated, measured, and stopped when the term is over.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// ErrClosed is wrapped by the error of whatever is asked of Clients that have been closed.
var ErrClosed = errors.New("the clients of OpenStack are closed")

// Options are what Clients need beside the configuration. All are optional.
type Options struct {
	// Transport wraps what makes the connections: the term's fence. An error of the wrapper that wraps fence.ErrClosed is final.
	Transport func(http.RoundTripper) http.RoundTripper
	// UserAgents are put before "fxccm" in the header User-Agent.
	UserAgents []string
	Logger     logr.Logger
	Observer   Observer
	// Trouble receives the outcome of logins. It may be nil.
	Trouble *trouble.Report
	// Clock is what limits and pauses go by. Default: the real one.
	Clock clock.Clock

	// Reload reads the configuration anew. It is called when one of Files, or of the certificates and keys that the
	// configuration names, has changed. Nil: the configuration stays, and only certificates and keys are read anew.
	Reload func(context.Context) (cloudconf.Config, error)
	// Files are those that Reload reads.
	Files []string

	random func() float64
}

func (o Options) withDefaults() (Options, error) {
	if o.Transport == nil {
		o.Transport = func(next http.RoundTripper) http.RoundTripper { return next }
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	for _, agent := range o.UserAgents {
		if agent == "" || strings.ContainsFunc(agent, func(r rune) bool { return r < ' ' || r > '~' }) {
			return o, fmt.Errorf("user agent %q cannot be put into a header", agent)
		}
	}
	return o, nil
}

func (o Options) userAgent() gophercloud.UserAgent {
	var agent gophercloud.UserAgent
	agent.Prepend(append(slices.Clone(o.UserAgents), "fxccm")...)
	return agent
}

// Clients are the clients of one cloud's services. They share nothing with others in the process, and are safe for concurrent use.
//
// A request passes, from the outside to the inside:
//
//  1. the token; if the service refuses it, a new one is got and the request is made again, once;
//  2. repetition of what could not be carried out for the moment;
//  3. the rate limit, for each attempt;
//  4. the time limit, the measurement and the log of one attempt, which ends with the last byte of the answer;
//  5. Options.Transport, the fence;
//  6. the connections, with the proxy that the environment names.
//
// A login passes 2 to 6.
type Clients struct {
	options Options
	// closing ends when Close is called.
	closing context.Context
	close   context.CancelCauseFunc
	watcher sync.WaitGroup

	mu       sync.Mutex
	current  *generation
	requests sync.WaitGroup
}

// New checks the configuration as far as that needs no network, and reads the files of certificates and keys. It logs in
// when the first client is asked for. The caller closes the Clients.
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
	c := &Clients{options: o, current: first}
	c.closing, c.close = context.WithCancelCause(context.Background())
	if len(watched(o, cfg)) > 0 || o.Reload != nil {
		w := &watch{clients: c, clock: o.Clock, logger: o.Logger, seen: seen}
		c.watcher.Go(func() { w.run(c.closing) })
	}
	return c, nil
}

// Compute returns the client of Nova. It is the same as long as nothing changes, and must not be changed: set the Microversion
// of a copy. The error wraps [ErrNoService] if there is no Nova, and is a [*LoginError] if nobody is logged in.
func (c *Clients) Compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceCompute, openstack.NewComputeV2)
}

// Network returns the client of Neutron, as Compute does that of Nova.
func (c *Clients) Network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceNetwork, openstack.NewNetworkV2)
}

// LoadBalancer returns the client of Octavia, as Compute does that of Nova.
func (c *Clients) LoadBalancer(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceLoadBalancer, openstack.NewLoadBalancerV2)
}

// KeyManager returns the client of Barbican, as Compute does that of Nova.
func (c *Clients) KeyManager(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, serviceKeyManager, openstack.NewKeyManagerV1)
}

// Project is the id of the project that the token is for.
func (c *Clients) Project(ctx context.Context) (string, error) {
	g, who, err := c.login(ctx, nil)
	if err != nil {
		return "", err
	}
	c.release(g)
	if who.project == "" {
		return "", errors.New("the login to OpenStack is for no project: set tenant-id, or tenant-name and its domain")
	}
	return who.project, nil
}

// Region is the one that the configuration names; "" if it names none.
func (c *Clients) Region() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.config.Global.Region
}

// Close cancels what is in flight, waits for it, and closes the connections. Nothing goes on in the background afterwards. Another
// call does nothing.
func (c *Clients) Close() error {
	c.mu.Lock()
	c.close(ErrClosed)
	c.mu.Unlock()
	c.watcher.Wait()
	c.mu.Lock()
	last := c.current
	c.mu.Unlock()
	last.session.end()
	c.requests.Wait()
	last.disconnect()
	return nil
}

type constructor func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)

func (c *Clients) service(ctx context.Context, service string, build constructor) (*gophercloud.ServiceClient, error) {
	g, who, err := c.login(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer c.release(g)
	endpoint, err := who.endpoint(service, g.availability, g.config.Global.Region)
	if err != nil {
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

// provider is gophercloud's part of a service's client. It has neither a token nor a way to renew one: that is the transport's.
// So it never changes, and may be used by many at once.
func (c *Clients) provider(service, endpoint string) *gophercloud.ProviderClient {
	return &gophercloud.ProviderClient{
		HTTPClient:      http.Client{Transport: &authenticated{clients: c, service: service}, CheckRedirect: sameService},
		UserAgent:       c.options.userAgent(),
		EndpointLocator: func(gophercloud.EndpointOpts) (string, error) { return endpoint, nil },
	}
}

// login returns the generation that goes now, and who is logged in. The caller releases the generation, unless there is an error.
func (c *Clients) login(ctx context.Context, stale *identity) (*generation, *identity, error) {
	for {
		g := c.acquire()
		who, err := g.session.identity(ctx, stale)
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

func (c *Clients) acquire() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.users++
	return c.current
}

// release tells whether the generation has been replaced. The last one to leave such a one closes its connections.
func (c *Clients) release(g *generation) (replaced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.users--
	if g.retired && g.users == 0 {
		g.disconnect()
	}
	return g != c.current
}

// replace has all requests go the new way that begin from now on.
func (c *Clients) replace(next *generation) {
	c.mu.Lock()
	old := c.current
	c.current = next
	c.mu.Unlock()
	c.retire(old)
}

// retire is called when no request begins any more.
func (c *Clients) retire(g *generation) {
	g.session.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	g.retired = true
	g.transport.CloseIdleConnections()
	if g.users == 0 {
		g.disconnect()
	}
}

// enter lets a request begin. ctx ends when the Clients are closed.
func (c *Clients) enter(ctx context.Context) (_ context.Context, done func(), _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return nil, nil, ErrClosed
	}
	c.requests.Add(1)
	merged, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return merged, func() {
		stop()
		cancel(nil)
		c.requests.Done()
	}, nil
}
