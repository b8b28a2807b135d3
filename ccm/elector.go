package ccm

import (
	"context"
	"time"
)

// An Elector decides when this process may act.
type Elector interface {
	// Elect waits until this process may lead, calls lead, and returns lead's error. One call is at
	// most one term.
	//
	// The context given to lead ends when leadership is lost, with a cause that wraps
	// [ErrLeadershipLost]. It does not end with ctx: if ctx ends while lead runs, the elector keeps
	// leadership until lead has returned, because lead watches ctx itself and needs the time to
	// drain. Then the elector releases leadership, except if lead's error is a
	// [*DrainTimeoutError], because some calls may still act.
	//
	// If ctx ends before leadership is won, Elect returns ctx's cause without calling lead.
	Elect(ctx context.Context, lead func(ctx context.Context, g Grant) error) error
}

// A Grant is one stretch of leadership, as the elector knows it.
type Grant struct {
	// ValidUntil returns the time after which this process must not act. Each renewal moves it. It
	// is called for each request, so it must be fast and safe for concurrent use. Nil: leadership
	// does not expire by the clock.
	ValidUntil func() time.Time

	// LeaseExpiry returns the earliest time at which another process may lead, which is later than
	// ValidUntil. Each renewal moves it. If leadership is lost, calls that continue after they were
	// canceled are reported by a [DrainTimeoutError] before that time. It must be fast and safe
	// for concurrent use. Nil: the time is not known.
	LeaseExpiry func() time.Time
}

// ElectionReporter is an [Elector] that reports the state of its election, for [Manager.Status].
type ElectionReporter interface {
	// ElectionStatus is safe for concurrent use.
	ElectionStatus() ElectionStatus
}

// ElectionStatus is the state of an election.
type ElectionStatus struct {
	// Identity is the name of this process in the election.
	Identity string `json:"identity,omitempty"`

	// Leader is the identity of the current leader, as far as it is known.
	Leader string `json:"leader,omitempty"`

	// LastRenewal is when this process last renewed its leadership.
	LastRenewal time.Time `json:"lastRenewal,omitzero"`

	// Err is the error of the last attempt to read, take or renew leadership; nil if it succeeded.
	Err error `json:"-"`
}

// AlwaysLead returns an [Elector] for a process without other replicas: it leads at once, and never
// loses leadership.
func AlwaysLead() Elector { return &always{} }

type always struct{}

func (*always) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return lead(context.WithoutCancel(ctx), Grant{})
}
