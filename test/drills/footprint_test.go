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
	// leakLimit is the time in which resources must be released. client-go keeps an idle HTTP/2
	// connection for 90 seconds.
	leakLimit = 100 * time.Second

	// tolerance is the allowed difference in the number of goroutines or connections: a worker may
	// be busy, and a connection may be kept for reuse.
	tolerance = 4
)

// A footprint is the resource use of the processes of a cell.
type footprint struct {
	// goroutines are counted by the function that started them, without goroutines of idle
	// connections.
	goroutines map[string]int
	// connections to the API server.
	connections int
}

// footprint measures the processes several times at rest and returns the lowest values.
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

// atRest measures the processes while a term is ready all the time.
func (w *world) atRest() (healthy footprint) {
	w.t.Helper()
	await(w.t, "a term stays ready", func() error {
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
	})
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

// compare returns nil if now is not larger than f.
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

// transient are the functions of goroutines of connections: of idle ones, and of the one that
// fetches the profile.
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

// countGoroutines counts the stacks of a goroutine profile by the function that started them.
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
