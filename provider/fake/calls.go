package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// errPanicked is the recorded error of a call that panicked.
var errPanicked = errors.New("panicked")

// A Call is one call to the cloud, recorded when it begins and completed when it ends.
type Call struct {
	// Seq counts the calls of the cloud from 1, in the order in which they began.
	Seq uint64 `json:"seq"`
	// Caller is the name of the caller; see [WithCaller].
	Caller    string    `json:"caller"`
	Interface Interface `json:"interface"`
	Method    Method    `json:"method"`
	// Object is the subject of the call: a node's name (even if the call gave a provider ID), a
	// Service's namespace/name, a route's target node, a volume, a cluster, or "".
	Object string `json:"object,omitempty"`
	// Mutating calls change something in the cloud.
	Mutating bool `json:"mutating,omitempty"`
	// CtxDone: the context had ended before the call began.
	CtxDone bool      `json:"ctxDone,omitempty"`
	Started time.Time `json:"started"`
	// Ended is zero while the call is in flight.
	Ended    time.Time `json:"ended,omitzero"`
	Finished bool      `json:"finished,omitempty"`
	// Err is the text of the error, "panicked" for a call that panicked, or "".
	Err string `json:"error,omitempty"`
}

// A CallFilter chooses calls; the zero value chooses all. Its Matches is a predicate for
// [Cloud.Calls] and [Cloud.WaitForCall]. It panics if there is no such method, because it would
// match no call.
type CallFilter struct {
	// Each of these fields must be equal to the call's unless it is "".
	Method    Method
	Interface Interface
	Caller    string
	Object    string
	// Each of these fields, if true, excludes the calls for which it is false.
	Mutating bool
	Finished bool
	// Failed calls ended with an error or a panic.
	Failed bool
}

// Matches reports whether the filter chooses call.
func (f CallFilter) Matches(call Call) bool {
	if f.Method != "" {
		mustExist(f.Method)
	}
	return (f.Method == "" || f.Method == call.Method) &&
		(f.Interface == "" || f.Interface == call.Interface) &&
		(f.Caller == "" || f.Caller == call.Caller) &&
		(f.Object == "" || f.Object == call.Object) &&
		(!f.Mutating || call.Mutating) &&
		(!f.Finished || call.Finished) &&
		(!f.Failed || call.Err != "")
}

// ConcurrentCalls is a mutating call that began while another caller had mutating calls in flight.
// With one leader at a time, and terms that end before the next begins, it never happens.
type ConcurrentCalls struct {
	// Call is the one that began while others were in flight.
	Call Call `json:"call"`
	// With are the mutating calls of other callers that were in flight then.
	With []Call `json:"with"`
}

// Stats are counts since [New] or [Cloud.ResetCalls].
type Stats struct {
	Callers map[string]CallerStats `json:"callers"`
	// InFlight is the number of calls that have not ended.
	InFlight int `json:"inFlight"`
}

// CallerStats are the counts of one caller.
type CallerStats struct {
	Calls       int `json:"calls"`
	InFlight    int `json:"inFlight"`
	MaxInFlight int `json:"maxInFlight"`
}

// Calls returns the calls for which every predicate holds, in the order in which they began,
// including those in flight.
func (c *Cloud) Calls(where ...func(Call) bool) []Call {
	calls, _, _ := c.record.changedSince(0)
	return slices.DeleteFunc(calls, func(call Call) bool { return !all(where, call) })
}

// WaitForCall waits for a call for which every predicate holds, and returns the first. Recorded
// calls count, too; see [Cloud.ResetCalls]. A call is checked when it begins and again when it
// ends. The predicates may use the Cloud. If ctx ends first, the error wraps the error of ctx.
func (c *Cloud) WaitForCall(ctx context.Context, where ...func(Call) bool) (Call, error) {
	var seen uint64
	for {
		changed := c.changes.next()
		calls, revision, total := c.record.changedSince(seen)
		for _, call := range calls {
			if all(where, call) {
				return call, nil
			}
		}
		seen = revision
		select {
		case <-changed:
		case <-ctx.Done():
			return Call{}, fmt.Errorf(
				"wait for a call to the fake cloud, not among the %d recorded: %w", total,
				ctx.Err())
		}
	}
}

// ConcurrentCalls returns each mutating call that began while a mutating call of another caller was
// in flight.
func (c *Cloud) ConcurrentCalls() []ConcurrentCalls { return c.record.concurrentCalls() }

// Stats returns the counts.
func (c *Cloud) Stats() Stats { return c.record.stats() }

// ResetCalls drops all calls that have ended, all concurrent calls, and all counts. Calls in flight
// stay in the record.
func (c *Cloud) ResetCalls() { c.record.reset() }

func all(where []func(Call) bool, call Call) bool {
	for _, holds := range where {
		if !holds(call) {
			return false
		}
	}
	return true
}

// record keeps the last calls. It drops the oldest above limit.
type record struct {
	changed func()

	mu    sync.Mutex
	limit int
	seq   uint64
	// revision counts begins and ends, so that waiters read only new entries.
	revision uint64
	calls    []*entry
	inFlight map[*entry]struct{}
	overlaps []ConcurrentCalls

	callers map[string]CallerStats
}

type entry struct {
	Call
	revision uint64
}

func newRecord(limit int, changed func()) *record {
	return &record{
		changed: changed, limit: limit,
		inFlight: map[*entry]struct{}{},
		callers:  map[string]CallerStats{},
	}
}

// begin records that call has begun and returns its entry. The embedded Call may be read only
// until end.
func (r *record) begin(call Call) *entry {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	call.Seq, call.Started = r.seq, time.Now()
	e := &entry{Call: call}
	r.touch(e)
	r.calls = trim(append(r.calls, e), r.limit)
	r.noteConcurrent(call)
	r.inFlight[e] = struct{}{}
	r.count(call)
	return e
}

func (r *record) end(e *entry, err error) {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Ended, e.Finished = time.Now(), true
	if err != nil {
		e.Err = err.Error()
	}
	r.touch(e)
	delete(r.inFlight, e)
	counts := r.callers[e.Caller]
	counts.InFlight--
	r.callers[e.Caller] = counts
}

func (r *record) touch(e *entry) {
	r.revision++
	e.revision = r.revision
}

// count adds a call in flight to the counts.
func (r *record) count(call Call) {
	counts := r.callers[call.Caller]
	counts.Calls++
	counts.InFlight++
	counts.MaxInFlight = max(counts.MaxInFlight, counts.InFlight)
	r.callers[call.Caller] = counts
}

func (r *record) noteConcurrent(call Call) {
	if !call.Mutating {
		return
	}
	var with []Call
	for e := range r.inFlight {
		if e.Mutating && e.Caller != call.Caller {
			with = append(with, e.Call)
		}
	}
	if with == nil {
		return
	}
	slices.SortFunc(with, func(a, b Call) int { return int(a.Seq) - int(b.Seq) })
	r.overlaps = trim(append(r.overlaps, ConcurrentCalls{Call: call, With: with}), r.limit)
}

// changedSince copies the calls that began or ended after revision. It returns the current
// revision, and the total number of recorded calls.
func (r *record) changedSince(revision uint64) (calls []Call, now uint64, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.calls {
		if e.revision > revision {
			calls = append(calls, e.Call)
		}
	}
	return calls, r.revision, len(r.calls)
}

func (r *record) concurrentCalls() []ConcurrentCalls {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.overlaps)
}

func (r *record) stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Callers: maps.Clone(r.callers), InFlight: len(r.inFlight)}
}

func (r *record) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = slices.DeleteFunc(r.calls, func(e *entry) bool { return e.Finished })
	r.overlaps = nil
	r.callers = map[string]CallerStats{}
	for e := range r.inFlight {
		r.count(e.Call)
	}
}

// trim drops the oldest quarter when there are more than limit. A whole quarter makes this rare.
func trim[T any](all []T, limit int) []T {
	if len(all) <= limit {
		return all
	}
	return slices.Delete(all, 0, limit/4)
}
