package nodes

import (
	"errors"
	"time"

	"github.com/fxccm/fxccm/internal/printable"
)

// A streak has the consecutive failures of a node in one controller. The zero value has none.
type streak struct {
	// since is when the first one was, and text that of the last one.
	since time.Time
	text  string
	// told is when the last event was written, and reason its reason.
	told   time.Time
	reason string
}

// add adds a failure. It reports whether the last one had another text.
func (s *streak) add(err error, now time.Time) (isNew bool) {
	if s.since.IsZero() {
		s.since = now
	}
	text := printable.Text(err.Error(), maxText)
	isNew, s.text = s.text != text, text
	return isNew
}

// lasts reports whether people have to know of the last failure: only a person can end it, or the
// streak has lasted for that time.
func (s *streak) lasts(err error, patience time.Duration, now time.Time) bool {
	_, isRefusal := errors.AsType[refusal](err)
	return isRefusal || now.Sub(s.since) >= patience
}

// tell notes an event with the reason, unless a recent one has it. Then it returns false.
func (s *streak) tell(reason string, now time.Time) bool {
	if reason == s.reason && now.Sub(s.told) < repeatFailure {
		return false
	}
	s.reason, s.told = reason, now
	return true
}
