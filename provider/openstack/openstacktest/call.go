package openstacktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// The services of the cloud by their type in the catalog, as a [Call] and a [Fault] name them.
const (
	ServiceIdentity     = api.ServiceIdentity
	ServiceCompute      = api.ServiceCompute
	ServiceNetwork      = api.ServiceNetwork
	ServiceLoadBalancer = api.ServiceLoadBalancer
)

// A Call is a request that has reached the cloud. It holds no secret: no token, and of a login no
// credential.
type Call struct {
	// Time is when it came, by the cloud's clock.
	Time    time.Time `json:"time"`
	Service string    `json:"service"`
	// Operation is <resource>_<verb>, such as server_list, port_update or token_create.
	Operation string `json:"operation"`
	Method    string `json:"method"`
	// Path is without what tells the interface apart.
	Path string `json:"path"`
	// Interface is the interface of the address in the catalog: public, internal or admin. The
	// paths of the last two begin with their names.
	Interface string `json:"interface"`
	// Query is the raw query.
	Query string `json:"query,omitempty"`
	Body  string `json:"body,omitempty"`
	// Status is what was answered; 0 for none.
	Status       int    `json:"status"`
	UserAgent    string `json:"userAgent,omitempty"`
	Microversion string `json:"microversion,omitempty"`
}

// record holds the last calls, and counts them all.
type record struct {
	calls  []Call
	limit  int
	counts map[string]int
	// arrived is closed when there is another call.
	arrived chan struct{}
}

func newRecord() record { return record{counts: map[string]int{}, arrived: make(chan struct{})} }

func (r *record) add(call Call) {
	if r.limit > 0 && len(r.calls) >= r.limit {
		r.calls = r.calls[1:]
	}
	r.calls = append(r.calls, call)
	r.counts[call.Operation]++
	close(r.arrived)
	r.arrived = make(chan struct{})
}

// Calls are the requests that have reached the cloud, in the order in which they were carried out:
// the last ones, see [WithCallLimit].
func (s *Cloud) Calls() []Call {
	defer s.state.Enter()()
	return slices.Clone(s.record.calls)
}

// Counts are the numbers of calls by operation.
func (s *Cloud) Counts() map[string]int {
	defer s.state.Enter()()
	return maps.Clone(s.record.counts)
}

// ForgetCalls clears the record and the counts.
func (s *Cloud) ForgetCalls() {
	defer s.state.Enter()()
	s.record.calls = nil
	clear(s.record.counts)
}

// WaitForCall returns the first call in the record that matches, as soon as there is one. The call
// has been carried out then, and perhaps not been answered. The error is that of ctx.
func (s *Cloud) WaitForCall(ctx context.Context, matches func(Call) bool) (Call, error) {
	for {
		s.state.Mu.Lock()
		calls, arrived := slices.Clone(s.record.calls), s.record.arrived
		s.state.Mu.Unlock()
		if i := slices.IndexFunc(calls, matches); i >= 0 {
			return calls[i], nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return Call{}, fmt.Errorf("wait for a call: %w", ctx.Err())
		}
	}
}

// redactBody returns the part of a request's body that may be recorded: nothing where it can hold
// passwords or keys.
func redactBody(op api.Operation, body []byte) []byte {
	switch {
	case op.Service == ServiceIdentity, op.Service == api.ServiceKeyManager,
		op.Name == "server_create", op.Name == "server_action":
		return nil
	}
	return body
}
