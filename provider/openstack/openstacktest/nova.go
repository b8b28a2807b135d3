package openstacktest

import (
	"net/http"
	"time"
)

type compute struct{}

func (s *Server) setUpCompute(mux *http.ServeMux) {}

// settleCompute finishes what is due. It is called with the lock held.
func (s *Server) settleCompute(now time.Time) {}
