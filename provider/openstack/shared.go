package openstack

import (
	"cmp"
	"time"

	"golang.org/x/time/rate"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// SharedConfig limits the requests of all clusters of one project together. A field that is 0 has
// its default.
type SharedConfig struct {
	// RequestRate is the average number of requests per second. Default 20. Negative: no limit.
	RequestRate float64
	// RequestBurst is the number of requests at once. Default 50.
	RequestBurst int
	// MaxAge limits the age of a list that another cluster has read, for periodic checks: of the
	// addresses of nodes, and of load balancers for drift. Default 4 minutes, which is less than
	// their period of 5 minutes: a cluster alone in a project checks them as without sharing. More
	// than 5 minutes also increase the age of the router in the check of routes. Negative: clusters
	// share only the lists that they request at the same time.
	MaxAge time.Duration
}

func (c SharedConfig) complete() SharedConfig {
	c.RequestRate = cmp.Or(c.RequestRate, 20)
	c.RequestBurst = cmp.Or(c.RequestBurst, 50)
	c.MaxAge = max(0, cmp.Or(c.MaxAge, 4*time.Minute))
	return c
}

func (c SharedConfig) options() client.SharedOptions {
	o := client.SharedOptions{Rate: rate.Inf, Burst: c.RequestBurst}
	if c.RequestRate > 0 {
		o.Rate = rate.Limit(c.RequestRate)
	}
	return o
}

// Shared is the state that the Managers of one process share, for providers that use it by
// [WithShared].
//
// Providers share if their configurations have the same address of Keystone, credentials, project,
// region, interface and TLS settings, down to the content of the files. If anything differs, they
// share nothing. Providers that share have:
//
//   - one login and its connections, as long as one of them is open
//   - one request for a list of the whole project, such as its servers, that several of them need
//     at the same time; periodic checks also use a recent list of another one
//   - one request budget, in which the clusters take turns: many requests of one do not delay those
//     of another. If OpenStack answers 429, or 503 with Retry-After, all of them wait.
//
// Everything else is separate: the state, decisions and writes of a provider, the fence of its
// term, its mass deletion guard and its metrics. The request rate of its own cloud.conf still
// limits it.
//
// Shared is safe for concurrent use. It has no goroutine or connection unless a provider uses it.
type Shared struct {
	config  SharedConfig
	clients *client.Shared
}

// NewShared starts no goroutine and sends no request.
func NewShared(c SharedConfig) *Shared {
	c = c.complete()
	return &Shared{config: c, clients: client.NewShared(c.options())}
}

// WithShared lets the provider share with others that have the same Shared. The names of the
// Managers identify the clusters.
func WithShared(s *Shared) Option { return func(from *source) { from.shared = s } }

// share sets the options of the clients.
func (s *Shared) share(env ccm.ProviderEnv, o *client.Options) {
	if s == nil {
		return
	}
	o.Shared, o.Cluster = s.clients, cmp.Or(env.Manager, env.ClusterName)
}

// shares are the parameters of shared reads. The zero value shares nothing.
type shares struct {
	read   sharing.Read
	maxAge time.Duration
}

func (s *Shared) reads(c *client.Clients) shares {
	if s == nil {
		return shares{}
	}
	return shares{read: c.Read, maxAge: s.config.MaxAge}
}
