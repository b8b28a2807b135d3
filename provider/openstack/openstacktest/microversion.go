package openstacktest

import "net/http"

// microversion is a version of an API, such as 2.47.
type microversion struct{ major, minor int }

func requestedMicroversion(r *http.Request) string { return r.Header.Get("OpenStack-API-Version") }

// negotiate finds the microversion for a request, or refuses it.
func (s *Server) negotiate(service string, r *http.Request) (microversion, *answer) {
	return microversion{2, 1}, nil
}

// withMicroversion says in the answer's header which microversion it is of.
func (s *Server) withMicroversion(service string, v microversion, a answer) answer { return a }
