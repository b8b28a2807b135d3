package openstacktest

import (
	"net"
	"net/http/httptest"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/keystone"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/nova"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/octavia"
)

type settings struct {
	clock    clock.PassiveClock
	latency  time.Duration
	pageSize int
	creation time.Duration
	listener net.Listener
	tls      bool

	keystone keystone.Options
	compute  nova.Options

	callLimit int
	observe   func(Call)
	admin     bool

	// network configures Neutron.
	network neutron.Options
	// octavia configures Octavia.
	octavia octavia.Options
}

func defaultSettings() settings {
	return settings{
		clock:    clock.RealClock{},
		pageSize: -1,
		keystone: keystone.Options{TokenLife: time.Hour, Region: "RegionOne"},

		compute:   nova.Options{Minor: 96},
		octavia:   octavia.Options{Minor: 27},
		callLimit: 100_000,
	}
}

func (s settings) listen(server *httptest.Server) {
	if s.listener != nil {
		_ = server.Listener.Close()
		server.Listener = s.listener
	}
}

// An Option configures the cloud of [NewCloud].
type Option func(*settings)

// WithClock sets the cloud's clock, which decides when tokens expire and when provisioned resources
// become active. Default: the real clock. Latency and delays always use the real clock.
func WithClock(c clock.PassiveClock) Option { return func(s *settings) { s.clock = c } }

// WithLatency delays the answer to each request. Default 0.
func WithLatency(latency time.Duration) Option { return func(s *settings) { s.latency = latency } }

// WithPageSize limits the items that a list returns; see [Cloud.SetPageSize]. Default: negative.
func WithPageSize(items int) Option { return func(s *settings) { s.pageSize = items } }

// WithTokenLife sets how long a token is valid. Default 1 h, as Keystone's.
func WithTokenLife(life time.Duration) Option {
	return func(s *settings) { s.keystone.TokenLife = life }
}

// WithTokenCache sets how long the services other than Keystone accept a token after its
// revocation, if one of them has accepted it before. Default 0: they refuse it at once, so that
// tests see the client's reaction. In most clouds it is 5 min (keystonemiddleware,
// token_cache_time).
func WithTokenCache(duration time.Duration) Option {
	return func(s *settings) { s.keystone.TokenCache = duration }
}

// WithProvisioning sets how long a server is in state BUILD, and a load balancer in a state PENDING
// after each change. Default 0: clients never see these states.
func WithProvisioning(duration time.Duration) Option {
	return func(s *settings) {
		s.compute.Provisioning, s.octavia.Provisioning = duration, duration
	}
}

// WithCreationTime sets how long Octavia needs for the request that creates a load balancer, in
// real time. It creates one at a time, as Octavia does for each project, and clients see the load
// balancer only after the answer. It is created even if the client disconnects. Default 0.
func WithCreationTime(duration time.Duration) Option {
	return func(s *settings) { s.creation = duration }
}

// WithRegion names the region of the catalog. Default RegionOne.
func WithRegion(name string) Option { return func(s *settings) { s.keystone.Region = name } }

// WithListener sets the cloud's listener. Default: a free port of 127.0.0.1. The Cloud closes it.
func WithListener(l net.Listener) Option { return func(s *settings) { s.listener = l } }

// WithTLS serves HTTPS. [Cloud.CertificatePEM] is the certificate's authority.
func WithTLS() Option { return func(s *settings) { s.tls = true } }

// WithCallLimit sets how many of the last calls are kept; 0: all. Default 100,000. [Cloud.Counts]
// still counts all calls.
func WithCallLimit(calls int) Option { return func(s *settings) { s.callLimit = calls } }

// WithObserver calls the function for each call as soon as it is recorded, possibly concurrently.
// The function may use the Cloud.
func WithObserver(observe func(Call)) Option { return func(s *settings) { s.observe = observe } }

// WithAdmin lets other processes control the cloud, over HTTP below /_sim, without a login; see the
// package's documentation.
func WithAdmin() Option { return func(s *settings) { s.admin = true } }
