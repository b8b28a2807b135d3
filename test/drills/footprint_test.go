//go:build linux

package drills_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	// leakLimit is for what ends by itself: an idle HTTP/2 connection of client-go's after a minute
	// and a half.
	leakLimit = 100 * time.Second

	// tolerance is by how much the number of goroutines, or of connections, may differ: a worker
	// that is just doing something, a connection that is kept for reuse.
	tolerance = 4
)

// A footprint is what the processes of a cell have.
type footprint struct {
	// goroutines are counted by what has started them. Goroutines of idle connections are left out.
	goroutines map[string]int
	// connections to the API server.
	connections int
}

// footprint measures the processes at rest: the least of a few looks.
func (w *world) footprint() (least footprint, _ error) {
	for i := range 4 {
		now := footprint{goroutines: map[string]int{}}
		for _, m := range w.members {
			stacks, err := m.Get(w.plane.RESTConfig(), "/debug/pprof/goroutine?debug=2")
			if err != nil {
				return now, err
			}
			countGoroutines(now.goroutines, stacks)
			now.connections += m.endpoint.Connections()
		}
		if i == 0 || now.total() < least.total() {
			least = now
		}
		time.Sleep(200 * time.Millisecond)
	}
	return least, nil
}

// atRest measures the processes in a term that is ready all the time.
func (w *world) atRest() (healthy footprint) {
	w.t.Helper()
	if err := within(patience, func() error {
		leader, err := w.leader(w.t.Context())
		if err != nil {
			return err
		}
		begun := len(w.begun())
		if healthy, err = w.footprint(); err != nil {
			return err
		}
		if again, err := w.leader(w.t.Context()); err != nil || again != leader ||
			len(w.begun()) != begun {
			return errors.Join(errors.New("another term has begun"), err)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return healthy
}

// begun are the beginnings of all terms.
func (w *world) begun() (all []replica.Entry) {
	for _, m := range w.members {
		all = append(all, w.entries(m, replica.TermBegins)...)
	}
	return all
}

func (f footprint) total() (n int) {
	for _, count := range f.goroutines {
		n += count
	}
	return n
}

// compare is nil if now is as small as f.
func (f footprint) compare(now footprint) error {
	if now.total() <= f.total()+tolerance && now.connections <= f.connections+tolerance {
		return nil
	}
	var more []string
	for _, what := range slices.Sorted(maps.Keys(now.goroutines)) {
		if d := now.goroutines[what] - f.goroutines[what]; d > 0 {
			more = append(more, fmt.Sprintf("%+d %s", d, what))
		}
	}
	return fmt.Errorf(
		"%d goroutines and %d connections are left, before the outage there were %d and %d; more: %s",
		now.total(), now.connections, f.total(), f.connections, strings.Join(more, "; "))
}

// transient are the functions of goroutines that belong to connections: those that are kept for
// reuse, and that on which was asked.
var transient = []string{
	"net/http.(*persistConn).",
	"net/http.(*http2ClientConn).readLoop",
	"golang.org/x/net/http2.(*ClientConn).readLoop",
	"net/http.(*conn).serve",
	"net/http.(*connReader).",
	"net/http.(*http2serverConn).",
	"golang.org/x/net/http2.(*serverConn).",
	"net/http/pprof.",
	"crypto/tls.(*Conn).HandshakeContext",
}

// countGoroutines counts the stacks of a goroutine profile by what has started them.
func countGoroutines(counts map[string]int, stacks string) {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if slices.ContainsFunc(transient,
			func(function string) bool { return strings.Contains(stack, function) }) {
			continue
		}
		_, by, created := strings.Cut(stack, "created by ")
		if !created {
			by = "main"
		}
		by, _, _ = strings.Cut(by, "\n")
		by, _, _ = strings.Cut(by, " in goroutine")
		counts[by]++
	}
}
