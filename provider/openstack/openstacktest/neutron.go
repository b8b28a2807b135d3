package openstacktest

import "net/http"

type network struct{}

func (s *Server) setUpNetwork(mux *http.ServeMux) {}
