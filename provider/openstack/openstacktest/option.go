package openstacktest

import (
	"net"
	"net/http/httptest"
	"time"

	"k8s.io/utils/clock"
)

type settings struct {
	clock        clock.PassiveClock
	latency      time.Duration
	pageSize     int
	tokenLife    time.Duration
	provisioning time.Duration
	region       string
	listener     net.Listener
	tls          bool
}

func defaultSettings() settings {
	return settings{
		clock:     clock.RealClock{},
		pageSize:  1000,
		tokenLife: time.Hour,
		region:    "RegionOne",
	}
}

func (s settings) listen(server *httptest.Server) {
	if s.listener != nil {
		_ = server.Listener.Close()
		server.Listener = s.listener
	}
}

// An Option changes what [NewServer] starts.
type Option func(*settings)

// WithClock sets what tells the time in the cloud: when tokens expire, when what is provisioned becomes active. Default: the
// real clock. Latency and slow answers are always of the real clock.
func WithClock(c clock.PassiveClock) Option { return func(s *settings) { s.clock = c } }

// WithLatency delays the answer to each request; see [Server.SetLatency]. Default 0.
func WithLatency(latency time.Duration) Option { return func(s *settings) { s.latency = latency } }

// WithPageSize sets how many items a list returns at most; see [Server.SetPageSize]. Default 1,000, as Nova's.
func WithPageSize(items int) Option { return func(s *settings) { s.pageSize = items } }

// WithTokenLife sets how long a token is valid. Default 1 h, as Keystone's.
func WithTokenLife(life time.Duration) Option { return func(s *settings) { s.tokenLife = life } }

// WithProvisioning sets how long a server is in state BUILD, and a load balancer in a state PENDING after each change. Default 0:
// no client ever sees these states.
func WithProvisioning(duration time.Duration) Option {
	return func(s *settings) { s.provisioning = duration }
}

// WithRegion names the region of the catalog. Default RegionOne.
func WithRegion(name string) Option { return func(s *settings) { s.region = name } }

// WithListener has the cloud listen there. Default: a free port of 127.0.0.1. The Server closes it.
func WithListener(l net.Listener) Option { return func(s *settings) { s.listener = l } }

// WithTLS serves HTTPS, with a certificate that [Server.CertificatePEM] is the authority of.
func WithTLS() Option { return func(s *settings) { s.tls = true } }
