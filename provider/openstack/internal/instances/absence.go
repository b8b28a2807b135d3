package instances

import "time"

// absences remembers which instances Nova has denied, until it shows them again. It is not safe for concurrent use.
type absences struct {
	// confirmation is how far apart two denials must be that are believed.
	confirmation time.Duration
	entries      map[string]absence
}

// absence is of one instance.
type absence struct {
	// first and last are when Nova was asked and denied it. Zero: a list lacked it only.
	first, last time.Time
	// seen is when it was last found to be missing, in whatever way.
	seen time.Time
}

// oldDenial is what does not count any more: nobody has asked since, so that there may have been signs of life.
const oldDenial = time.Hour

func newAbsences(confirmation time.Duration) *absences {
	return &absences{confirmation: confirmation, entries: map[string]absence{}}
}

// deny notes that Nova was asked at a time and denied the instance, and tells whether that is believed: it denied it before, long
// enough ago, and has not shown it since.
func (a *absences) deny(key string, at time.Time) bool {
	e := a.entries[key]
	if e.first.IsZero() || at.Sub(e.last) > oldDenial {
		e.first = at
	}
	e.last, e.seen = later(e.last, at), later(e.seen, at)
	a.entries[key] = e
	return e.last.Sub(e.first) >= a.confirmation
}

// begin has the next denial be the first one.
func (a *absences) begin(key string) {
	e := a.entries[key]
	e.first, e.last = time.Time{}, time.Time{}
	a.entries[key] = e
}

// beginAll is begin for all.
func (a *absences) beginAll() {
	for key := range a.entries {
		a.begin(key)
	}
}

// suspect notes that a list lacked the instance.
func (a *absences) suspect(key string, at time.Time) {
	e := a.entries[key]
	e.seen = later(e.seen, at)
	a.entries[key] = e
}

// live notes a sign of life, and tells whether the instance was missing.
func (a *absences) live(key string) bool {
	_, missing := a.entries[key]
	delete(a.entries, key)
	return missing
}

func (a *absences) has(key string) bool {
	_, ok := a.entries[key]
	return ok
}

// forget drops what was not missing since a time.
func (a *absences) forget(before time.Time) {
	for key, e := range a.entries {
		if e.seen.Before(before) {
			delete(a.entries, key)
		}
	}
}

// due is when Nova must have been asked, at the earliest, for a denial to tell something new. Until a second one counts, the
// first one is repeated. Then it must be of no greater age, unless none of them is believed anyway (refused).
func (a *absences) due(key string, now time.Time, age time.Duration, refused bool) time.Time {
	e := a.entries[key]
	second := e.first.Add(a.confirmation)
	switch {
	case e.first.IsZero():
		return now.Add(-age)
	case now.Before(second):
		return e.first
	case refused:
		return now.Add(-a.confirmation)
	}
	return later(second, now.Add(-age))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
