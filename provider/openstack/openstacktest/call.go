package openstacktest

import (
	"slices"
	"time"
)

// The services of the cloud, as a [Call] and a [Fault] name them: the types of the catalog.
const (
	Identity     = "identity"
	Compute      = "compute"
	Network      = "network"
	LoadBalancer = "load-balancer"
	KeyManager   = "key-manager"
)

// A Call is a request that has reached the cloud. It holds no secret: no token, and of a login no credential.
type Call struct {
	// Time is when it came, by the cloud's clock.
	Time    time.Time
	Service string
	// Operation is <resource>_<verb>, such as server_list, port_update or token_create.
	Operation string
	Method    string
	Path      string
	// Query is the raw query.
	Query string
	Body  string
	// Status is what was answered; 0 for none.
	Status       int
	UserAgent    string
	Microversion string
}

// Calls are the requests that have reached the cloud, in the order in which they were carried out.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Counts are the numbers of calls by operation.
func (s *Server) Counts() map[string]int {
	counts := map[string]int{}
	for _, call := range s.Calls() {
		counts[call.Operation]++
	}
	return counts
}

// ForgetCalls begins the record anew.
func (s *Server) ForgetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}
