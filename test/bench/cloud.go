package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// A cloudServer serves the fake cloud, a new one for each trial, at one address.
type cloudServer struct {
	current atomic.Pointer[servedCloud]
	address string
	// requests counts those to the address.
	requests atomic.Int64
}

type servedCloud struct {
	*fake.Cloud
	handler http.Handler
}

// serveCloud serves an empty cloud until the attempt ends.
func serveCloud(t *attempt.T) *cloudServer {
	s := &cloudServer{}
	s.renew(0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.current.Load().handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.address = server.URL
	return s
}

// renew replaces the cloud by an empty one, whose calls take as long as latency.
func (s *cloudServer) renew(latency time.Duration) *fake.Cloud {
	cloud := fake.New(fake.WithLatency(latency))
	s.current.Store(&servedCloud{Cloud: cloud, handler: cloud.Handler()})
	return cloud
}
