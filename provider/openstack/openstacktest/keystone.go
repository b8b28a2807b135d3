package openstacktest

import "net/http"

const identityPath = "/identity"

type identity struct{}

type token struct{}

func (s *Server) setUpIdentity(mux *http.ServeMux) {}

// authenticate finds the caller's token. Without a valid one the answer is the refusal. It is called with the lock held.
func (s *Server) authenticate(service string, r *http.Request) (*token, answer) {
	return nil, failure(service, http.StatusUnauthorized, "The request you have made requires authentication.")
}

// redactBody is what may be recorded of a request's body.
func redactBody(op operation, body []byte) []byte {
	if op.service == Identity {
		return nil
	}
	return body
}
