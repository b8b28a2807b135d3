package election

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A drainTimeout is a *ccm.DrainTimeoutError: the error of a term that has not drained.
type drainTimeout interface {
	error
	// MayAct reports whether the term could still change the cluster or the cloud.
	MayAct() bool
	// Ended is closed when all of the term has ended.
	Ended() <-chan struct{}
}

// ErrLost is wrapped by the cause of a term context that ended because the lease could not be
// renewed, or another process took it.
var ErrLost = errors.New("leadership lost")

// An Elector decides when this process may act.
type Elector interface {
	// Elect waits until this process may lead, calls lead, and returns lead's error. One call is at
	// most one term.
	//
	// The context given to lead ends when leadership is lost, with a cause that wraps
	// [ErrLost]. It does not end with ctx: if ctx ends while lead runs, the elector keeps
	// leadership until lead has returned, because lead watches ctx itself and needs the time to
	// drain. Then the elector releases leadership, except if lead's error is a
	// *ccm.DrainTimeoutError, because some calls may still act.
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
	// canceled are reported by a ccm.DrainTimeoutError before that time. It must be fast and safe
	// for concurrent use. Nil: the time is not known.
	LeaseExpiry func() time.Time
}

// Reporter is an [Elector] that reports the state of its election, for the Manager's Status.
type Reporter interface {
	// Status is safe for concurrent use.
	ElectionStatus() Status
}

// Status is the state of an election.
type Status struct {
	// Identity is the name of this process in the election.
	Identity string `json:"identity,omitempty"`

	// Leader is the identity of the current leader, as far as it is known.
	Leader string `json:"leader,omitempty"`

	// WaitsFor is the last seen holder that may still lead, and WaitsUntil is when this process may
	// lead unless WaitsFor renews its leadership. WaitsFor differs from Leader if the lease was
	// deleted or edited, because its holder may not have noticed that yet.
	WaitsFor   string    `json:"waitsFor,omitempty"`
	WaitsUntil time.Time `json:"waitsUntil,omitzero"`

	// LastRenewal is when this process last renewed its leadership.
	LastRenewal time.Time `json:"lastRenewal,omitzero"`

	// Err is the error of the last attempt to read, take or renew leadership; nil if it succeeded.
	Err error `json:"-"`
}

// WaitReason explains a wait that the lease does not show. It is empty if the lease names the
// holder that this process waits for.
func (s Status) WaitReason() string {
	if s.WaitsFor == "" || s.WaitsFor == s.Leader {
		return ""
	}
	return fmt.Sprintf("the lease was deleted or edited; its holder %q may still lead until %s "+
		"and this process waits", s.WaitsFor, s.WaitsUntil.UTC().Format(time.RFC3339))
}

// Alone is an [Elector] for a process without other replicas: it leads at once, and never loses
// leadership.
type Alone struct{}

// Elect implements [Elector].
func (*Alone) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return lead(context.WithoutCancel(ctx), Grant{})
}
