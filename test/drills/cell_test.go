//go:build linux

package drills_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	// leadsWithin is the time within which the cloud controller manager should lead again after an
	// outage. The table shows longer times. A test fails only after leadsAtLast, because the
	// machine may be busy.
	leadsWithin = 10 * time.Second
	leadsAtLast = time.Minute
)

// The load: the leader of a cell changes the cloud about four times a second.
const (
	loadServices = 1
	loadTakes    = 100 * time.Millisecond
	loadPauses   = 150 * time.Millisecond
)

// A topology is a way in which the library is used.
type topology struct {
	name string
	// members is the number of processes.
	members int
	// host means that they are hosts with their own informers instead of the example.
	host bool
}

var topologies = []topology{
	{name: "two replicas", members: 2},
	{name: "one replica", members: 1},
	{name: "fx host", members: 1, host: true},
}

// A cell is one drill.
type cell struct {
	outage    outage
	situation situation
	topology  topology
}

func (c cell) String() string {
	return fmt.Sprintf("%s/%s/%s", c.outage.name, c.situation.name, c.topology.name)
}

// cells are the cells to run, in the order of the table.
func cells() (chosen []cell) {
	for i, o := range outages {
		for j, s := range situations {
			for k, topo := range topologies {
				if all() || inSpread(i, j, k) {
					chosen = append(chosen, cell{o, s, topo})
				}
			}
		}
	}
	return chosen
}

// inSpread chooses few cells that cover each outage, each situation and each topology.
func inSpread(outage, situation, topology int) bool {
	return situation < len(outages) && outage == situation &&
		topology == situation%len(topologies) ||
		situation >= len(outages) && outage == situation-len(outages) &&
			topology == situation%len(topologies) ||
		// A read hangs during a black hole.
		outage == 0 && situation == 1 && topology == 2 ||
		// A call to the cloud succeeds, and its result is pending while another replica leads.
		outage == 7 && situation == 3 && topology == 0
}

// lanes limit the number of parallel cells. A frozen kube-apiserver serves only one cell.
var lanes = struct{ shared, frozen chan struct{} }{
	make(chan struct{}, atOnce()),
	make(chan struct{}, 1),
}

func atOnce() int {
	if n, err := strconv.Atoi(os.Getenv("FXCCM_DRILLS_PARALLEL")); err == nil && n > 0 {
		return n
	}
	return 4 * runtime.NumCPU()
}

// lane waits for a place on the shared control plane.
func lane(t *testing.T) {
	t.Helper()
	lanes.shared <- struct{}{}
	t.Cleanup(func() { <-lanes.shared })
}

func TestOutages_NoLateCallsAndTheCCMLeadsAgain(t *testing.T) {
	t.Parallel()
	for i, c := range cells() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			p := planes.shared
			if c.outage.frozen {
				p = planes.frozen
				lanes.frozen <- struct{}{}
				t.Cleanup(func() { <-lanes.frozen })
			} else {
				lane(t)
			}
			r := &result{cell: c, unfinished: true}
			results.add(r)
			c.run(t, newWorld(t, p.started(t), fmt.Sprintf("cell-%03d", i)), r)
		})
	}
}

// run runs the drill of one cell. A defect is in the result and fails the test.
func (c cell) run(t *testing.T, w *world, r *result) {
	w.frozen = c.outage.frozen
	c.start(t, w)
	w.awaitLeader()
	w.addNode()
	w.addNode()
	w.addService()
	w.load(loadServices, loadTakes, loadPauses)
	w.awaitServed()
	if c.situation.settle != nil {
		c.situation.settle(w)
	}
	healthy := w.atRest()

	s := newStrike(w, c.outage)
	c.situation.bring(w, s.begin)
	select {
	case <-s.begun:
	case <-time.After(patience):
		t.Fatalf("the situation %q does not come about", c.situation.name)
	}
	w.treat(nil)
	w.cloudTreat.Store(nil)
	over := s.sitOut(w.lastToBegin())
	if s.err != nil {
		t.Fatal(s.err)
	}

	var err error
	r.led, err = w.leadsAgain(over)
	r.leads = err == nil
	if err != nil {
		r.complain(t, "does not lead again", "%v", err)
	} else if r.led > leadsWithin {
		r.note("slow")
	}
	for _, m := range w.members {
		if m.HasExited() {
			r.complain(t, fmt.Sprintf("exit code %d", m.ExitCode()), "%s has ended with code %d",
				m.Name, m.ExitCode())
		}
	}
	if err == nil {
		c.goOn(t, w, r, healthy)
	}
	r.late, r.overlaps = w.wantNothingLate()
	r.unfinished = false
}

// start starts the processes of the cell.
func (c cell) start(t *testing.T, w *world) {
	t.Helper()
	program, args := programs.ccm, slices.Clone(c.situation.args)
	if c.topology.host {
		program, args = programs.host, append(args, "--shared-informers")
	}
	if c.outage.resolves {
		// The example resolves names like its machine.
		program = programs.host
		var err error
		if w.names, err = netfault.ListenNames(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.names.Close() })
	}
	for i := range c.topology.members {
		w.start(fmt.Sprintf("%s-%c", w.name, 'a'+i), program, args...)
	}
}

// goOn creates new work, and measures the processes when the work is done.
func (c cell) goOn(t *testing.T, w *world, r *result, healthy footprint) {
	t.Helper()
	w.addNode()
	w.addService()
	err := within(patience, func() error { return w.served(t.Context()) })
	if err != nil {
		r.complain(t, "work left", "work is left: %v", err)
		return
	}
	if slices.ContainsFunc(w.members, (*member).HasExited) {
		return
	}
	if err := within(leakLimit, func() error {
		if _, err := w.leader(t.Context()); err != nil {
			return err
		}
		now, err := w.footprint()
		if err != nil {
			return err
		}
		return healthy.compare(now)
	}); err != nil {
		r.complain(t, "leak", "%v", err)
	}
}

// lastToBegin is the member with the latest term.
func (w *world) lastToBegin() (last *member) {
	var at time.Time
	for _, m := range w.members {
		if begun := w.entries(m, replica.TermBegins); len(begun) > 0 &&
			begun[len(begun)-1].At.After(at) {
			last, at = m, begun[len(begun)-1].At
		}
	}
	return last
}

// leadsAgain waits until a member leads, and returns the time from the end of the outage until its
// term was ready: 0 if it was ready before.
func (w *world) leadsAgain(over time.Time) (after time.Duration, _ error) {
	err := within(time.Until(over.Add(leadsAtLast)), func() error {
		if !slices.ContainsFunc(w.members, func(m *member) bool { return !m.HasExited() }) {
			return nil
		}
		leader, err := w.leader(w.t.Context())
		if err != nil {
			return err
		}
		ready := w.entries(leader, replica.TermReady)
		after = max(0, ready[len(ready)-1].At.Sub(over))
		return nil
	})
	if err == nil &&
		!slices.ContainsFunc(w.members, func(m *member) bool { return !m.HasExited() }) {
		err = errors.New("no process is left")
	}
	return after, err
}
