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

	"k8s.io/utils/clock"
)

// A Cloud is an OpenStack cloud in memory, listening on a loopback address. It is safe for concurrent use.
type Cloud struct {
	http     *httptest.Server
	url      string
	settings settings
	clock    clock.PassiveClock

	// alive is what the contexts of all requests are made from. It is ended by end, so that no answer is held back any longer.
	alive     context.Context
	end       context.CancelFunc
	closeOnce sync.Once

	// creating is held by the request that Octavia makes a load balancer for. It is locked before mu.
	creating sync.Mutex

	// mu guards all that follows. Each request is carried out under it, so that each is one step of the cloud; latency and
	// the sending of the answer are outside of it.
	mu     sync.Mutex
	faults []*injected
	// injected counts the faults there were.
	injected int
	record   record
	latency  time.Duration
	pageSize int
	// ids counts what has been made, so that the same calls give the same ids; requests does so for the ids of requests.
	ids      uint64
	requests uint64

	identity     identity
	compute      compute
	network      network
	loadBalancer loadBalancer
	keyManager   keyManager
}

// NewCloud starts a cloud with the defaults of [DefaultProject]. The caller closes it. It panics when it cannot listen on a
// loopback address, as httptest.NewServer does.
func NewCloud(options ...Option) *Cloud {
	s := &Cloud{settings: defaultSettings(), record: newRecord()}
	for _, option := range options {
		option(&s.settings)
	}
	s.clock = s.settings.clock
	s.latency, s.pageSize, s.record.limit = s.settings.latency, s.settings.pageSize, s.settings.callLimit

	mux := http.NewServeMux()
	s.http = httptest.NewUnstartedServer(mux)
	s.settings.listen(s.http)
	// What net/http would log is a client's doing, and a test of the client's asks for it.
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.alive, s.end = context.WithCancel(context.Background())
	s.http.Config.BaseContext = func(net.Listener) context.Context { return s.alive }
	// Nobody is served before all is set up: a listener that the caller made may be known to clients.
	s.url = "http://" + s.http.Listener.Addr().String()
	start := s.http.Start
	if s.settings.tls {
		s.url = "https://" + s.http.Listener.Addr().String()
		start = s.http.StartTLS
	}
	s.setUpIdentity(mux)
	s.setUpCompute(mux)
	s.setUpNetwork(mux)
	s.setUpLoadBalancer(mux)
	s.setUpKeyManager(mux)
	s.setUpRest(mux)
	if s.settings.admin {
		s.setUpAdmin(mux)
	}
	start()
	return s
}

// Close ends what is held back, waits for the requests in flight, and closes the listener. Another call does nothing.
func (s *Cloud) Close() {
	s.closeOnce.Do(func() {
		s.end()
		s.http.Close()
	})
}

// URL is the address of the cloud, without a path or a slash at its end.
func (s *Cloud) URL() string { return s.url }

// AuthURL is the address of Keystone, with its version: the auth-url of cloud.conf.
func (s *Cloud) AuthURL() string { return s.URL() + identityPath + "/v3" }

// SetLatency delays the answer to each request from now on.
func (s *Cloud) SetLatency(latency time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = latency
}

// SetPageSize is how many items a list returns at most, whatever limit is asked for. 0 means all; below 0,
// each service does as it does by default: Nova 1,000, the others all.
func (s *Cloud) SetPageSize(items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = items
}

// settle lets the cloud do what has become due: it is called with the lock held before each request and each look into the cloud.
func (s *Cloud) settle() {
	now := s.clock.Now()
	s.settleCompute(now)
	s.settleLoadBalancer(now)
}
