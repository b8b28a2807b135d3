//go:build linux

package drills_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	freezes   = 10
	frozenFor = time.Minute

	kills       = 20
	replicasRun = 3

	// workers of each controller are fewer than the nodes and Services of a batch, so that some
	// work is in flight and some is queued.
	workers = 6
	batch   = 16
)

var workerFlags = []string{
	fmt.Sprintf("--concurrent-service-syncs=%d", workers),
	fmt.Sprintf("--concurrent-node-syncs=%d", workers),
}

// usualLease is the default. A busy machine does not lose it.
func usualLease() replica.LeaseTimes {
	return replica.LeaseTimes{
		Duration: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second,
	}
}

// Another holder is written into the lease while every worker waits for the cloud and more work is
// queued. No request is being sent then, so the count begins before the loss and needs no
// allowance: each counted request was sent after the fence had closed.
func TestLeaseTaken_QueuedAndInFlightWork_MakesNoCalls(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newWorld(t, planes.shared.started(t), "taken")
	m := w.start(w.name+"-a", programs.ccm, slices.Concat(workerFlags, usualLease().Flags())...)
	_, term, release := w.awaitAtWork()
	before := time.Now()
	if err := w.change(edits[0], m); err != nil {
		t.Fatal(err)
	}
	// The next renewal shows the loss. The reason proves that the process did not wait for the
	// renew deadline.
	ended := m.AwaitEntry(t, int(term), replica.TermEnds)
	if !strings.Contains(ended.Reason, `"another" has taken it`) {
		t.Errorf("the term ended because of %q, want that another has taken the lease",
			ended.Reason)
	}
	m.AwaitEntry(t, int(term), replica.Standby)
	release()

	// The other holder does not renew the lease.
	again := m.AwaitEntry(t, int(term)+1, replica.TermBegins)
	w.wantSilence(m, before, again.At)
	w.awaitServed()
	w.wantNothingMadeTwice()
}

// Leaders, one after another, are frozen for a minute each, while the next one takes over. The
// calls in flight then succeed in the cloud, so when a leader wakes, all of its workers have an
// answer at once and are about to write it; more work is queued. Only the fence stops them, by the
// clock: the process has not been notified yet that its lease has expired.
//
// A leader is frozen while all of its workers wait for the cloud, because a fence in a process
// cannot stop a request that has passed it and that the freeze catches before the socket. It is
// sent when the process wakes.
func TestFrozenLeader_ChangesNothingWhenItWakes(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newWorld(t, planes.shared.started(t), "frozen")
	for i := range freezes + 1 {
		w.start(fmt.Sprintf("%s-%d", w.name, i), programs.ccm, workerFlags...)
	}
	var frozen []*member
	var terms []uint64
	var since []time.Time
	for range freezes {
		leader, term, release := w.awaitAtWork(frozen...)
		leader.Freeze(t)
		frozen, terms = append(frozen, leader), append(terms, term)
		since = append(since, time.Now())
		release()
		await(t, "the cloud has answered the calls of "+leader.Name, func() error {
			if n := w.cloud.Stats().Callers[leader.Caller(term)].InFlight; n > 0 {
				return fmt.Errorf("%d calls are in flight", n)
			}
			return nil
		})
	}
	last := w.awaitAnother(frozen...)
	for i, m := range frozen {
		time.Sleep(time.Until(since[i].Add(frozenFor)))
		m.Signal(t, syscall.SIGCONT)
		m.AwaitEntry(t, int(terms[i]), replica.Standby)
	}
	w.awaitServed()
	for i, m := range frozen {
		// A busy machine may lose the lease, so that this replica leads again.
		until := time.Now()
		for _, e := range w.entries(m, replica.TermBegins) {
			if e.Term == terms[i]+1 {
				until = e.At
			}
		}
		w.wantSilence(m, since[i], until)
		if m.HasExited() {
			t.Errorf("%s has ended with code %d", m.Name, m.ExitCode())
		}
	}

	// They still work: one of them leads when the last leader has stopped.
	last.Signal(t, syscall.SIGTERM)
	if code := last.Wait(t); code != 0 {
		t.Errorf("%s ended with code %d", last.Name, code)
	}
	w.addNode()
	if heir := w.awaitAnother(last); !slices.Contains(frozen, heir) {
		t.Errorf("%s leads, want a replica that was frozen", heir.Name)
	}
	w.awaitServed()
	w.wantNothingMadeTwice()
}

// Leaders, one after another, are killed in the middle of their work. Three replicas run at any
// time.
func TestKilledLeaders_NeverTwoTermsAtOnceAndNothingIsLostOrMadeTwice(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newWorld(t, planes.shared.started(t), "killed")
	w.cloud.SetLatency(150 * time.Millisecond)
	w.load(loadServices, 0, loadPauses)
	startNext := func() {
		w.start(fmt.Sprintf("%s-%d", w.name, len(w.members)), programs.ccm)
	}
	for range replicasRun {
		startNext()
	}
	for range kills {
		leader := w.awaitLeader()
		for range 5 {
			w.addNode()
			w.addService()
		}
		w.awaitMutatingCall()
		_ = leader.Kill()
		startNext()
	}
	w.awaitLeader()
	w.awaitServed()
	w.wantNothingLate()
	w.wantNothingMadeTwice()
	// On a busy machine a leader may also lose its lease by itself.
	if terms := len(w.begun()); terms < kills+1 {
		t.Errorf("%d terms have begun, want at least %d: one of each that was killed, and the last",
			terms, kills+1)
	}
}

func TestProviderPanics_TheCallFailsAndTheProcessLives(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newWorld(t, planes.shared.started(t), "panics")
	m := w.start(w.name+"-a", programs.ccm,
		append(usualLease().Flags(), "--node-status-update-frequency=1s")...)
	w.awaitLeader()
	w.addNode()
	w.addNode()
	w.awaitServed()
	// The lifecycle controller checks only nodes that are not ready.
	w.shutOff(w.nodes[0])

	methods := []fake.Method{
		"EnsureLoadBalancer", "InstanceMetadata", "CreateRoute",
		"ListRoutes", "InstanceExists",
	}
	for _, method := range methods {
		w.cloud.On(method).Times(2).Panic("the provider's " + string(method) + " is broken")
	}
	w.cloud.On("InstanceMetadata").Times(3).ReturnZero()
	for range 5 {
		w.addNode()
		w.addService()
	}
	await(t, "all panics have happened", func() error {
		if faults := w.cloud.Faults(); faults > 0 {
			return fmt.Errorf("%d faults have not been used up", faults)
		}
		return nil
	})
	w.awaitServed()
	if m.HasExited() || m.Term(t) != 1 || m.Leads() != nil {
		t.Errorf("the process runs: %t, in term %d: %v; want it to lead in its first term",
			!m.HasExited(), m.Term(t), m.Leads())
	}
	if said := w.entries(m, replica.Panicked); len(said) != 2*len(methods) {
		t.Errorf("the log reports %d panics, want %d", len(said), 2*len(methods))
	}
	await(t, "an event reports the panic", func() error {
		events, err := w.plane.admin.CoreV1().Events(w.name).List(t.Context(),
			metav1.ListOptions{FieldSelector: "reason=SyncLoadBalancerFailed"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, "the provider's EnsureLoadBalancer is broken") {
				return nil
			}
		}
		return fmt.Errorf("%d other events", len(events.Items))
	})
}

// awaitAtWork waits for a term of a member other than these, gives it more work than it has
// workers, and returns when all of them wait for the cloud. release lets the cloud answer. A busy
// machine may lose the lease meanwhile; then the work is that of the next term.
func (w *world) awaitAtWork(except ...*member) (leader *member, term uint64, release func()) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		leader = w.awaitAnother(except...)
		term = leader.Term(w.t)
		release = w.cloud.On().By(leader.Caller(term)).Hang()
		for range batch {
			w.addNode()
			w.addService()
		}
		err := w.awaitBlocked(leader, term, deadline)
		switch {
		case err == nil:
			return leader, term, release
		case time.Now().After(deadline):
			w.t.Fatalf("term %d of %s: %v", term, leader.Name, err)
		}
		release()
	}
}

// awaitBlocked waits until all workers of a term wait for the cloud. It returns an error if the
// term has ended, or at the deadline.
func (w *world) awaitBlocked(leader *member, term uint64, deadline time.Time) error {
	w.t.Helper()
	type activity struct{ acts, calls, inFlight int }
	var last activity
	since := time.Now()
	for {
		now := leader.Term(w.t)
		acts, err := w.acts()
		stats := w.cloud.Stats().Callers[leader.Caller(term)]
		seen := activity{len(acts), stats.Calls, stats.InFlight}
		if seen != last || err != nil || seen.inFlight < 2*workers {
			last, since = seen, time.Now()
		}
		switch {
		case now != term:
			return fmt.Errorf("term %d follows it", now)
		case leader.Leads() != nil:
			return fmt.Errorf("it does not lead: %w", leader.Leads())
		case time.Since(since) >= 400*time.Millisecond:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d calls are in flight, want %d of its workers: %w", seen.inFlight,
				2*workers, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// awaitAnother waits until a member other than these leads.
func (w *world) awaitAnother(except ...*member) (leader *member) {
	w.t.Helper()
	await(w.t, "another replica leads", func() (err error) {
		leader, err = w.leader(w.t.Context())
		if err == nil && slices.Contains(except, leader) {
			err = fmt.Errorf("%s leads", leader.Name)
		}
		return err
	})
	return leader
}

// awaitMutatingCall waits until a mutating call to the cloud is in flight.
func (w *world) awaitMutatingCall() {
	w.t.Helper()
	if _, err := w.cloud.WaitForCall(waittest.Context(w.t), fake.CallFilter{Mutating: true}.Matches,
		func(call fake.Call) bool { return !call.Finished }); err != nil {
		w.t.Fatal(err)
	}
}

// wantSilence fails the test for each mutating call of the member between two moments.
func (w *world) wantSilence(m *member, after, until time.Time) {
	w.t.Helper()
	acts, err := w.acts()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range acts {
		if at := a.begin.recorded; a.by == m && at.After(after) && at.Before(until) {
			w.t.Errorf("%s too late: %s", at.Sub(after), a)
		}
	}
}

// wantNothingMadeTwice is for a world in which no Service and no Node was deleted: each must have
// one load balancer or one route, which is still the first one, and no two terms have changed the
// cloud at once.
func (w *world) wantNothingMadeTwice() {
	w.t.Helper()
	balancers := map[string]bool{}
	for _, b := range w.cloud.LoadBalancers() {
		balancers[b.Service] = true
	}
	if all := len(w.cloud.LoadBalancers()); all != len(w.services) || len(balancers) != all {
		w.t.Errorf("%d load balancers of %d Services exist, want one for each of %d Services", all,
			len(balancers), len(w.services))
	}
	// The cloud keeps an object until it is deleted, so an object that was never deleted was
	// created once.
	for _, method := range []fake.Method{"EnsureLoadBalancerDeleted", "DeleteRoute"} {
		for _, call := range w.cloud.Calls(fake.CallFilter{Method: method}.Matches) {
			w.t.Errorf("%s deleted an object that exists in the cluster: %s of %s", call.Caller,
				method, call.Object)
		}
	}
	routes := map[string]string{}
	for _, call := range w.cloud.Calls(
		fake.CallFilter{Method: "CreateRoute", Finished: true}.Matches) {
		if call.Err != "" {
			continue
		}
		if other, made := routes[call.Object]; made {
			w.t.Errorf("the route to %s was made by %s and again by %s", call.Object, other,
				call.Caller)
		}
		routes[call.Object] = call.Caller
	}
	for _, o := range w.cloud.ConcurrentCalls() {
		w.t.Errorf("two terms changed the cloud at once: %s called %s while %s was in %s",
			o.Call.Caller, o.Call.Method, o.With[0].Caller, o.With[0].Method)
	}
}
