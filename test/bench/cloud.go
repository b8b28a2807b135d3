package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

// A cloudServer serves the fake cloud, a new one for each trial, at one address.
type cloudServer struct {
	current atomic.Pointer[servedCloud]
	server  *http.Server
	address string
	done    chan error
	// requests counts those to the address.
	requests atomic.Int64
}

type servedCloud struct {
	*fake.Cloud
	handler http.Handler
}

func serveCloud() (*cloudServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the fake cloud: %w", err)
	}
	s := &cloudServer{address: "http://" + listener.Addr().String(), done: make(chan error, 1)}
	s.renew(0)
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.requests.Add(1)
			s.current.Load().handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { s.done <- s.server.Serve(listener) }()
	return s, nil
}

// renew replaces the cloud by an empty one, whose calls take as long as latency.
func (s *cloudServer) renew(latency time.Duration) *fake.Cloud {
	cloud := fake.New(fake.WithLatency(latency))
	s.current.Store(&servedCloud{Cloud: cloud, handler: cloud.Handler()})
	return cloud
}

func (s *cloudServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("stop serving the fake cloud: %w", err)
	}
	return nil
}
