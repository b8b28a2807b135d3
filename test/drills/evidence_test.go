//go:build linux

package drills_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// transit is the allowance between the closing of the fence and the time stamp of a request that
// passed the fence before: the receiving process has to be scheduled before it reads its clock.
const transit = time.Second

// An act is a mutating call, to the cloud or the API server.
type act struct {
	by         *member
	begin, end moment
	what       string
}

// A moment is a time stamp that may have been written late. A drill reports a member only if the
// act was wrong at each time in between.
type moment struct{ earliest, recorded time.Time }

// inTest is a moment by the clock of this process.
func inTest(recorded time.Time) moment { return moment{machine.earliest(recorded), recorded} }

func (a act) String() string {
	return fmt.Sprintf("%s: %s from %s to %s", a.by.Name, a.what,
		clockTime(a.begin.recorded), clockTime(a.end.recorded))
}

func clockTime(at time.Time) string { return at.Format("15:04:05.000000") }

// acts are all mutating calls of the members, in the order in which they began.
func (w *world) acts() ([]act, error) {
	all, err := w.writes()
	if err != nil {
		return nil, err
	}
	for _, call := range w.cloud.Calls(fake.CallFilter{Mutating: true}.Matches) {
		for _, m := range w.members {
			if m.isOf(call.Caller) {
				all = append(all,
					act{
						m, inTest(call.Started), inTest(endOf(call)),
						fmt.Sprintf("%s %s of %s (%s)", call.Caller, call.Method, call.Object,
							call.Err),
					})
			}
		}
	}
	slices.SortFunc(all, func(a, b act) int { return a.begin.recorded.Compare(b.begin.recorded) })
	return all, nil
}

// writes are the members' writes to the API server. They exclude those that bypass the fence:
// events, the lease, and the secure port's reviews of its callers.
//
// A fence in a process cannot stop a request that has passed it and waits in the socket of a frozen
// API server: Linux delivers what arrived before a reset. Such a request was canceled, and is
// excluded if it had no effect, or if its sender has logged that the end of the term aborted it.
func (w *world) writes() (all []act, _ error) {
	records, err := w.plane.Audit().Since(w.mark, controlplane.Mutating())
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		switch record.Resource {
		case "events", "leases", "tokenreviews", "subjectaccessreviews":
			continue
		}
		if w.frozen && record.Code >= 300 {
			continue
		}
		done := record.Done
		if record.Code == http.StatusGatewayTimeout {
			// The client canceled it. The API server records that when it notices it.
			done = record.Time
		}
		for _, m := range w.members {
			if m.isOf(record.UserAgent) && !(w.frozen && w.aborted(m, record)) {
				all = append(all, act{
					m,
					moment{record.Time, record.Time},
					moment{done, done},
					record.String(),
				})
			}
		}
	}
	return all, nil
}

// aborted reports whether the member has logged, before the API server received the request, that
// the end of the term aborted it.
func (w *world) aborted(m *member, request controlplane.AuditRecord) bool {
	w.t.Helper()
	path, _, _ := strings.Cut(request.RequestURI, "?")
	return slices.ContainsFunc(w.entries(m), func(e replica.Entry) bool {
		return e.At.Before(request.Time) && strings.Contains(e.Err, path) &&
			strings.Contains(e.Err, "the term is over")
	})
}

// late are the acts of members whose fence had closed.
func (w *world) late() ([]act, error) {
	all, err := w.acts()
	if err != nil {
		return nil, err
	}
	var late []act
	for _, m := range w.members {
		for _, gap := range w.gaps(m) {
			for _, a := range all {
				if a.by == m && a.begin.earliest.After(gap.from.Add(transit)) &&
					(gap.until.IsZero() || a.begin.recorded.Before(gap.until)) {
					late = append(late, a)
				}
			}
		}
	}
	return late, nil
}

// A span is a period; a zero until means that it has no end.
type span struct{ from, until time.Time }

// gaps are the periods in which no fence of the member was open: from the end of each term to the
// beginning of the next.
func (w *world) gaps(m *member) (all []span) {
	closed := false
	for _, e := range w.entries(m, replica.TermBegins, replica.TermEnds, replica.TermDrained) {
		switch {
		case e.Message == replica.TermBegins:
			if closed {
				all[len(all)-1].until = e.At
			}
			closed = false
		case closed:
		case e.Message == replica.TermEnds && e.Closed.IsZero():
			// If the term did not end by a loss of the lease, calls in flight may finish, and a
			// drained term makes no calls.
		default:
			from := e.Closed
			if from.IsZero() {
				from = e.At
			}
			all, closed = append(all, span{from: from}), true
		}
	}
	return all
}

// A tenure is a period in which a member held the valid lease, by the API server's record: from the
// moment at which it got the lease until the lease expired or another member got it.
type tenure struct {
	span
	holder string
}

func (w *world) tenures() (history []tenure, _ error) {
	writes, err := w.plane.Audit().Since(w.mark,
		func(r controlplane.AuditRecord) bool { return r.Namespace == w.name },
		controlplane.ByResource("coordination.k8s.io", "leases"),
		controlplane.ByVerb("create", "update"),
		controlplane.ByCode(http.StatusOK, http.StatusCreated))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(writes,
		func(a, b controlplane.AuditRecord) int { return a.Time.Compare(b.Time) })
	for _, write := range writes {
		i := slices.IndexFunc(w.members, func(m *member) bool { return m.isOf(write.UserAgent) })
		if i < 0 {
			continue // an edit by the drill
		}
		holder := w.members[i].Name
		expires := write.Time.Add(replica.QuickLease().Duration)
		if last := len(history) - 1; last >= 0 && write.Time.Before(history[last].until) {
			if history[last].holder == holder {
				history[last].until = expires
				continue
			}
			history[last].until = write.Time
		}
		history = append(history, tenure{span{from: write.Time, until: expires}, holder})
	}
	return history, nil
}

// unled are the acts of members that did not hold a valid lease when the act began, or that ended
// when another member had it. The API server of a busy machine may take seconds for a request that
// it received in time; until another member has the lease, that does no harm.
func (w *world) unled() ([]act, error) {
	history, err := w.tenures()
	if err != nil {
		return nil, err
	}
	all, err := w.acts()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(a act) bool {
		for i, e := range history {
			if e.holder == a.by.Name && !a.begin.recorded.Before(e.from) &&
				!a.begin.earliest.After(e.until) {
				return !slices.ContainsFunc(history[i:], func(later tenure) bool {
					return later.holder != e.holder && a.end.earliest.After(later.from)
				})
			}
		}
		return false
	}), nil
}

// wantNothingLate fails the test for the acts without an open fence, and for those without the
// lease, and returns their numbers.
func (w *world) wantNothingLate() (late, unled int) {
	w.t.Helper()
	const most = 5 // of each in the output
	want := func(wrong string, find func() ([]act, error)) int {
		w.t.Helper()
		found, err := find()
		if err != nil {
			w.t.Error(err)
		}
		for _, a := range found[:min(len(found), most)] {
			w.t.Errorf("%s: %s", wrong, a)
		}
		return len(found)
	}
	late, unled = want("after the fence had closed", w.late), want("without a valid lease", w.unled)
	if late+unled > 0 {
		w.t.Logf("%d and %d acts; the tenures and the requests to the lease:", late, unled)
		w.logLease()
	}
	return late, unled
}

// logLease logs who held the lease, and all writes to it.
func (w *world) logLease() {
	w.t.Helper()
	history, err := w.tenures()
	if err != nil {
		w.t.Log(err)
	}
	for _, e := range history {
		w.t.Logf("%s held it from %s to %s", e.holder, clockTime(e.from), clockTime(e.until))
	}
	writes, err := w.plane.Audit().Since(w.mark, controlplane.Mutating(),
		func(r controlplane.AuditRecord) bool { return r.Namespace == w.name },
		controlplane.ByResource("coordination.k8s.io", "leases"))
	if err != nil {
		w.t.Log(err)
	}
	for _, write := range writes {
		w.t.Logf("%s %s from %s to %s: %d", write.UserAgent, write.Verb, clockTime(write.Time),
			clockTime(write.Done), write.Code)
	}
}
