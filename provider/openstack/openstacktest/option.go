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

	// network is what changes Neutron.
	network neutron.Options
	// octavia is what changes Octavia.
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

// An Option changes what [NewCloud] starts.
type Option func(*settings)

// WithClock sets what tells the time in the cloud: when tokens expire, when what is provisioned
// becomes active. Default: the real clock. Latency and slow answers are always of the real clock.
func WithClock(c clock.PassiveClock) Option { return func(s *settings) { s.clock = c } }

// WithLatency delays the answer to each request. Default 0.
func WithLatency(latency time.Duration) Option { return func(s *settings) { s.latency = latency } }

// WithPageSize sets how many items a list returns at most; see [Cloud.SetPageSize]. Default:
// negative.
func WithPageSize(items int) Option { return func(s *settings) { s.pageSize = items } }

// WithTokenLife sets how long a token is valid. Default 1 h, as Keystone's.
func WithTokenLife(life time.Duration) Option {
	return func(s *settings) { s.keystone.TokenLife = life }
}

// WithTokenCache sets how long the services other than Keystone go on accepting a token that one of
// them has accepted, though it be revoked meanwhile. Default 0: they refuse it at once, so that
// tests see what a client does then. It is 5 min in most clouds (keystonemiddleware,
// token_cache_time).
func WithTokenCache(duration time.Duration) Option {
	return func(s *settings) { s.keystone.TokenCache = duration }
}

// WithProvisioning sets how long a server is in state BUILD, and a load balancer in a state PENDING
// after each change. Default 0: no client ever sees these states.
func WithProvisioning(duration time.Duration) Option {
	return func(s *settings) {
		s.compute.Provisioning, s.octavia.Provisioning = duration, duration
	}
}

// WithCreationTime sets how long Octavia is at a request that makes a load balancer, in real time.
// It makes one after the other, as Octavia does for each project, and no client sees a load
// balancer before it has answered; that its client has gone away does not keep it from being made.
// Default 0.
func WithCreationTime(duration time.Duration) Option {
	return func(s *settings) { s.creation = duration }
}

// WithRegion names the region of the catalog. Default RegionOne.
func WithRegion(name string) Option { return func(s *settings) { s.keystone.Region = name } }

// WithListener has the cloud listen there. Default: a free port of 127.0.0.1. The Cloud closes it.
func WithListener(l net.Listener) Option { return func(s *settings) { s.listener = l } }

// WithTLS serves HTTPS, with a certificate that [Cloud.CertificatePEM] is the authority of.
func WithTLS() Option { return func(s *settings) { s.tls = true } }

// WithCallLimit sets how many of the last calls are kept; 0: all. Default 100,000. [Cloud.Counts]
// counts them all the same.
func WithCallLimit(calls int) Option { return func(s *settings) { s.callLimit = calls } }

// WithObserver has each call reported as soon as it is recorded, several at a time if they come so.
// The function may use the Cloud.
func WithObserver(observe func(Call)) Option { return func(s *settings) { s.observe = observe } }

// WithAdmin lets other processes steer the cloud, over HTTP below /_sim, without logging in; see
// the package's documentation.
func WithAdmin() Option { return func(s *settings) { s.admin = true } }
