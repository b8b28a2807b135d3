//go:build linux

package drills_test

import (
	"net/http"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/netfault"
)

const (
	// outageLasts is longer than a term may take to end: the lease's duration, and then the drain
	// timeout.
	outageLasts = 10 * time.Second
	// standbyHeals is when the connection of a standby is repaired: it can take over while the
	// leader is still cut off.
	standbyHeals = 4 * time.Second

	drainTimeout = 4 * time.Second
)

// An outage is a failure of the API server or of the network to it.
type outage struct {
	name string
	// fault is the fault of the proxies. It is not used for an outage of the API server itself.
	fault netfault.Fault
	// resolves means that names cannot be resolved during the outage.
	resolves bool
	// frozen means that the API server itself is frozen.
	frozen bool
}

var outages = []outage{
	{name: "black hole", fault: netfault.BlackHole()},
	{name: "connections reset", fault: netfault.Reset()},
	{name: "frozen", frozen: true},
	{name: "slow, 5 s", fault: netfault.Slow(5 * time.Second)},
	{name: "429, Retry-After", fault: netfault.Status(http.StatusTooManyRequests, time.Second)},
	{name: "wrong certificate", fault: netfault.WrongCertificate()},
	{name: "name unknown", fault: netfault.Reset(), resolves: true},
	// Data of the outage arrives when the network works again, unless the sender discards it.
	{name: "network interrupted", fault: netfault.Stall()},
}

// A strike is an outage of one cell. A handler of requests may begin it.
type strike struct {
	w      *world
	outage outage
	once   sync.Once
	// begun is closed when the outage has begun, at the time at.
	begun chan struct{}
	at    time.Time
	err   error
}

func newStrike(w *world, o outage) *strike {
	return &strike{w: w, outage: o, begun: make(chan struct{})}
}

// begin begins the outage. A second call does nothing.
func (s *strike) begin() {
	s.once.Do(func() {
		defer close(s.begun)
		s.at = time.Now()
		switch {
		case s.outage.frozen:
			s.err = s.w.plane.freeze()
		case s.outage.resolves:
			s.w.names.Set(netfault.Unknown)
			s.set(s.outage.fault, s.w.members...)
			// From now on only the name resolution fails.
			s.set(netfault.Pass(), s.w.members...)
		default:
			s.set(s.outage.fault, s.w.members...)
		}
	})
}

func (s *strike) set(f netfault.Fault, members ...*member) {
	for _, m := range members {
		if err := m.endpoint.Set(f); err != nil && s.err == nil {
			s.err = err
		}
	}
}

// sitOut waits for the end of the outage, and returns when it ended for the first member.
func (s *strike) sitOut(leader *member) (over time.Time) {
	heal := func(members ...*member) {
		if s.outage.frozen || s.outage.resolves {
			return
		}
		s.set(netfault.Pass(), members...)
		if over.IsZero() {
			over = time.Now()
		}
	}
	var others []*member
	for _, m := range s.w.members {
		if m != leader {
			others = append(others, m)
		}
	}
	time.Sleep(time.Until(s.at.Add(standbyHeals)))
	if len(others) > 0 {
		heal(others...)
	}
	time.Sleep(time.Until(s.at.Add(outageLasts)))
	heal(leader)
	if s.outage.resolves {
		s.w.names.Set(netfault.Known)
	}
	if s.outage.frozen {
		if err := s.w.plane.thaw(); err != nil && s.err == nil {
			s.err = err
		}
	}
	if over.IsZero() {
		over = time.Now()
	}
	return over
}
