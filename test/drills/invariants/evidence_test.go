//go:build linux

package invariants_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// by selects the requests of a replica, whose user agent begins with its name.
func by(r *replica.Replica) controlplane.Filter {
	return func(record controlplane.AuditRecord) bool {
		return strings.HasPrefix(record.UserAgent, r.Name+"/")
	}
}

// ofTerm selects requests that are checked by the fence: mutating requests, except events, the
// lease, and the secure port's reviews of its callers, all of which a replica may send without
// leading.
func ofTerm(record controlplane.AuditRecord) bool {
	switch record.Resource {
	case "events", "leases", "tokenreviews", "subjectaccessreviews":
		return false
	}
	return record.Mutating()
}

func (w *world) requests(t *testing.T, filters ...controlplane.Filter) []controlplane.AuditRecord {
	t.Helper()
	records, err := w.cp.Audit().All(filters...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// activity counts the requests and calls of a replica, to detect new ones.
type activity struct{ writes, calls, inFlight int }

func (w *world) activity(t *testing.T, r *replica.Replica, caller string) (activity, error) {
	stats := w.cloud.Stats()
	records, err := w.cp.Audit().All(by(r), ofTerm)
	return activity{len(records), stats.Callers[caller].Calls, stats.Callers[caller].InFlight}, err
}

// wantSilence fails the test for each mutating request and call of the replica between two moments.
// A zero until means that the period has no end.
func (w *world) wantSilence(t *testing.T, r *replica.Replica, after, until time.Time) {
	t.Helper()
	w.wantNone(t, r, after, until, func(bool) bool { return true })
}

func (w *world) wantNone(
	t *testing.T, r *replica.Replica, after, until time.Time, counts func(succeeded bool) bool,
) {
	t.Helper()
	between := func(at time.Time) bool {
		return at.After(after) && (until.IsZero() || at.Before(until))
	}
	shown := 0
	complain := func(format string, args ...any) {
		t.Helper()
		if shown++; shown <= 5 {
			t.Errorf(format, args...)
		}
	}
	for _, record := range w.requests(t, by(r), ofTerm) {
		if between(record.Time) && counts(record.Code < 300) {
			complain("%s too late: %s", record.Time.Sub(after), record)
		}
	}
	for _, call := range w.cloud.Calls(fake.CallFilter{Mutating: true}.Matches) {
		if strings.HasPrefix(call.Caller, r.Name+"/") && between(call.Started) &&
			counts(call.Finished && call.Err == "") {
			complain("%s too late: %s calls %s of %s", call.Started.Sub(after), call.Caller,
				call.Method, call.Object)
		}
	}
	if shown > 5 {
		t.Errorf("… and %d more", shown-5)
	}
}

// A tenure is the period in which a replica held the lease by the API server's record: from the
// moment at which it got it to the one at which another replica got it. The lease may have expired
// before that.
type tenure struct {
	holder      string
	from, until time.Time
}

// tenures reads the history of the lease from the audit log, so all times are of one clock.
func (w *world) tenures(t *testing.T) []tenure {
	t.Helper()
	var history []tenure
	writes := w.requests(t, controlplane.ByResource("coordination.k8s.io", "leases"),
		controlplane.ByVerb("create", "update"),
		controlplane.ByCode(http.StatusOK, http.StatusCreated))
	slices.SortFunc(writes,
		func(a, b controlplane.AuditRecord) int { return a.Time.Compare(b.Time) })
	for _, write := range writes {
		holder, _, _ := strings.Cut(write.UserAgent, "/")
		last := len(history) - 1
		if last >= 0 && history[last].holder == holder {
			continue
		}
		if last >= 0 {
			history[last].until = write.Time
		}
		history = append(history, tenure{holder: holder, from: write.Time})
	}
	return history
}

func (e tenure) covers(holder string, begin, end time.Time) bool {
	return e.holder == holder && !begin.Before(e.from) && (e.until.IsZero() || !end.After(e.until))
}

// wantOneTermAtATime compares every mutating request and call with the history of the lease: each
// must begin while its replica holds the lease, and end before another gets it.
func (w *world) wantOneTermAtATime(t *testing.T) {
	t.Helper()
	history := w.tenures(t)
	within := func(holder string, begin, end time.Time) bool {
		return slices.ContainsFunc(history,
			func(e tenure) bool { return e.covers(holder, begin, end) })
	}
	replicas := w.all()
	for _, record := range w.requests(t, ofTerm) {
		holder, _, _ := strings.Cut(record.UserAgent, "/")
		if !slices.ContainsFunc(replicas,
			func(r *replica.Replica) bool { return r.Name == holder }) {
			continue // a request of the test
		}
		if !within(holder, record.Time, record.Done) {
			t.Errorf("a request without the lease: %s", record)
		}
	}
	for _, call := range w.cloud.Calls(fake.CallFilter{Mutating: true}.Matches) {
		holder, _, _ := strings.Cut(call.Caller, "/")
		end := call.Ended
		if !call.Finished {
			end = time.Now()
		}
		if !within(holder, call.Started, end) {
			t.Errorf("a call without the lease: %s calls %s of %s from %s to %s", call.Caller,
				call.Method, call.Object,
				call.Started.Format(time.StampMicro), end.Format(time.StampMicro))
		}
	}
	for _, o := range w.cloud.ConcurrentCalls() {
		t.Errorf("two terms changed the cloud at once: %s called %s while %s was in %s",
			o.Call.Caller, o.Call.Method, o.With[0].Caller, o.With[0].Method)
	}
}
