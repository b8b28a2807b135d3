package nodes

import (
	"errors"
	"time"

	"github.com/fxccm/fxccm/internal/printable"
)

// A streak has the consecutive failures of a node in one controller. The zero value has none.
type streak struct {
	// since is when the first one was, and cause the text of the last one without IDs.
	since time.Time
	cause string
	// told is when the last event was written, and about what.
	told  time.Time
	about string
}

// begin begins the streak, unless it has begun.
func (s *streak) begin(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
}

// add adds a failure. It reports whether the last one had another cause.
func (s *streak) add(err error, now time.Time) (isNew bool) {
	s.begin(now)
	cause := printable.WithoutIDs(printable.Text(err.Error(), maxText))
	isNew, s.cause = cause != s.cause, cause
	return isNew
}

// lasts reports whether people have to know of the last failure: only a person can end it, or the
// streak has lasted for that time.
func (s *streak) lasts(err error, patience time.Duration, now time.Time) bool {
	_, isRefusal := errors.AsType[refusal](err)
	return isRefusal || now.Sub(s.since) >= patience
}

// tell notes an event, unless the last one was about the same and is recent. Then it returns false.
func (s *streak) tell(about string, now time.Time) bool {
	if about == s.about && now.Sub(s.told) < repeatFailure {
		return false
	}
	s.about, s.told = about, now
	return true
}
