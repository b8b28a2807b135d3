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
	// [ErrLeadershipLost]. It does not end with ctx: when ctx ends while lead runs, leadership is kept up until lead
	// has returned, since lead watches ctx itself and needs the time to drain. Only then is
	// leadership given back, and not at all if lead's error is a [*DrainTimeoutError]: something may still
	// act.
	//
	// When ctx ends before leadership is won, Elect returns ctx's cause without calling lead.
	Elect(ctx context.Context, lead func(ctx context.Context, g Grant) error) error
}

// A Grant is one stretch of leadership, as the elector knows it.
type Grant struct {
	// ValidUntil is the time after which this process must not act unless leadership has been
	// renewed since, in which case a later time is returned. It must be safe for concurrent use and cheap: it is asked
	// at each call. Nil: leadership does not expire by the clock.
	ValidUntil func() time.Time

	// LeaseExpiry is when another process may lead at the earliest, unless leadership has been renewed since; later than ValidUntil. When
	// leadership is lost, calls that go on although they were cancelled are reported by a [DrainTimeoutError] before that time. It must be
	// like ValidUntil. Nil: it is not known.
	LeaseExpiry func() time.Time
}

// ElectionReporter is an [Elector] that can tell how the election stands. [Manager.Status] shows it.
type ElectionReporter interface {
	// ElectionStatus is safe for concurrent use.
	ElectionStatus() ElectionStatus
}

// ElectionStatus is how an election stands.
type ElectionStatus struct {
	// Identity is this process's name in the election.
	Identity string `json:"identity,omitempty"`

	// Leader is who leads, as far as is known.
	Leader string `json:"leader,omitempty"`

	// LastRenewal is when leadership was last renewed by this process.
	LastRenewal time.Time `json:"lastRenewal,omitzero"`

	// Err is why the last attempt to look at, take or renew leadership failed; nil if it did not.
	Err error `json:"-"`
}

// AlwaysLead returns an [Elector] for a process that is certain to be the only one: it leads at
// once, and never loses.
func AlwaysLead() Elector { return &always{} }

type always struct{}

func (*always) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return lead(context.WithoutCancel(ctx), Grant{})
}
