package openstacktest

import (
	"net/http"
	"time"
)

type loadBalancer struct{}

func (s *Server) setUpLoadBalancer(mux *http.ServeMux) {}

// settleLoadBalancer finishes what is due. It is called with the lock held.
func (s *Server) settleLoadBalancer(now time.Time) {}
