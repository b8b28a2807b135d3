package openstacktest

import "net/http"

type keyManager struct{}

func (s *Server) setUpKeyManager(mux *http.ServeMux) {}
