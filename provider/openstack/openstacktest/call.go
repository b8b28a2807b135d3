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

// A Call is a request that has reached the cloud. It contains no secret: neither a token nor the
// credentials of a login.
type Call struct {
	// Time is when it arrived, by the cloud's clock.
	Time    time.Time `json:"time"`
	Service string    `json:"service"`
	// Operation is <resource>_<verb>, such as server_list, port_update or token_create.
	Operation string `json:"operation"`
	Method    string `json:"method"`
	// Path is the path without the prefix of the interface.
	Path string `json:"path"`
	// Interface is the interface of the address in the catalog: public, internal or admin. The
	// paths of the last two begin with their names.
	Interface string `json:"interface"`
	// Query is the raw query.
	Query string `json:"query,omitempty"`
	Body  string `json:"body,omitempty"`
	// Status is the status of the answer; 0 if there was no answer.
	Status       int    `json:"status"`
	UserAgent    string `json:"userAgent,omitempty"`
	Microversion string `json:"microversion,omitempty"`
}

// record keeps the last calls, and counts all of them.
type record struct {
	calls  []Call
	limit  int
	counts map[string]int
	// arrived is closed when another call arrives.
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

// Calls are the requests that have reached the cloud, in the order of their execution. The record
// keeps the last ones, see [WithCallLimit].
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

// WaitForCall returns the first matching call in the record, as soon as it exists. The call has
// been executed then, but its answer may not have been sent. The error is that of ctx.
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

// redactBody returns the part of a request's body that may be recorded: nil if the body can contain
// passwords or keys.
func redactBody(op api.Operation, body []byte) []byte {
	switch {
	case op.Service == ServiceIdentity, op.Service == api.ServiceKeyManager,
		op.Name == "server_create", op.Name == "server_action":
		return nil
	}
	return body
}
