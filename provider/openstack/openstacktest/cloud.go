package openstacktest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/barbican"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/keystone"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/nova"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/octavia"
)

// A Cloud is an OpenStack cloud in memory, listening on a loopback address. It is safe for
// concurrent use.
type Cloud struct {
	http     *httptest.Server
	settings settings
	state    api.State

	// alive is the parent of all request contexts. end cancels it, so that delayed answers end.
	alive     context.Context
	end       context.CancelFunc
	closeOnce sync.Once

	// creating is held while Octavia creates a load balancer for a request. It is locked before mu.
	creating sync.Mutex

	// The lock of state guards the following fields.
	faults []*injected
	// injected counts all faults so far.
	injected int
	record   record
	latency  time.Duration
	// requests counts requests for their IDs.
	requests uint64

	keystone     *keystone.Service
	barbican     *barbican.Service
	compute      *nova.Service
	network      *neutron.Service
	loadBalancer *octavia.Service
}

// NewCloud starts a cloud with the defaults of the default project. The caller closes it. It panics
// if it cannot listen on a loopback address, like httptest.NewServer.
func NewCloud(options ...Option) *Cloud {
	s := &Cloud{settings: defaultSettings(), record: newRecord()}
	for _, option := range options {
		option(&s.settings)
	}
	s.state.Settle = s.settle
	s.state.Clock, s.state.PageSize = s.settings.clock, s.settings.pageSize
	s.latency, s.record.limit = s.settings.latency, s.settings.callLimit

	mux := http.NewServeMux()
	s.http = httptest.NewUnstartedServer(mux)
	s.settings.listen(s.http)
	// A client causes everything that net/http would log, and a test of the client does it on
	// purpose.
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.alive, s.end = context.WithCancel(context.Background())
	s.http.Config.BaseContext = func(net.Listener) context.Context { return s.alive }
	// The listener serves only when the set-up is complete, because clients may already know a
	// listener of the caller.
	s.state.URL = "http://" + s.http.Listener.Addr().String()
	start := s.http.Start
	if s.settings.tls {
		s.state.URL = "https://" + s.http.Listener.Addr().String()
		start = s.http.StartTLS
	}
	s.settings.keystone.CertificatePEM = s.CertificatePEM
	s.keystone = keystone.New(&s.state, s.settings.keystone)
	s.barbican = barbican.New(&s.state)
	s.network = neutron.New(&s.state, s.settings.network)
	s.compute = nova.New(&s.state, s.network, s.keystone.OwnerOf, s.settings.compute)
	s.loadBalancer = octavia.New(&s.state, s.network, s.barbican.Holds, s.settings.octavia)
	s.register(mux, s.keystone.Operations()...)
	s.register(mux, s.barbican.Operations()...)
	s.register(mux, s.compute.Operations()...)
	s.register(mux, s.network.Operations()...)
	s.register(mux, s.loadBalancer.Operations()...)
	s.registerUnknown(mux)
	if s.settings.admin {
		s.setUpAdmin(mux)
	}
	start()
	return s
}

// Close cancels delayed answers, waits for the requests in flight, and closes the listener. Another
// call does nothing.
func (s *Cloud) Close() {
	s.closeOnce.Do(func() {
		s.end()
		s.http.Close()
	})
}

// URL is the address of the cloud, without a path or a trailing slash.
func (s *Cloud) URL() string { return s.state.URL }

// setLatency delays the answer to each request from now on.
func (s *Cloud) setLatency(latency time.Duration) {
	defer s.state.Enter()()
	s.latency = latency
}

// SetPageSize limits the items that a list returns, whatever limit a request sets. 0 means no
// limit. A negative number selects the default of each service: 1,000 for Nova, no limit for the
// others.
func (s *Cloud) SetPageSize(items int) {
	defer s.state.Enter()()
	s.state.PageSize = items
}

// settle finishes the work that is due. It is called with the lock held, before each request and
// each access by a method.
func (s *Cloud) settle() {
	now := s.state.Clock.Now()
	s.compute.Finish(now)
	s.loadBalancer.Finish(now)
}
