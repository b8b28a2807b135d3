package absence

import "time"

// absences records the instances that the cloud denied, until it returns them again. It is not safe
// for concurrent use.
type absences struct {
	// confirmation is the minimum time between the two denials that confirm an absence.
	confirmation time.Duration
	entries      map[string]absence
}

type absence struct {
	// first and last are the times of the denials. Zero: only a list lacked the instance.
	first, last time.Time
	// seen is when the instance was last missing in a list or a direct response.
	seen time.Time
}

// oldDenial is the age at which a denial expires, because the instance may have existed in between.
const oldDenial = time.Hour

func newAbsences(confirmation time.Duration) *absences {
	return &absences{confirmation: confirmation, entries: map[string]absence{}}
}

// deny records that the cloud denied the instance, and tells whether the absence is confirmed: the
// cloud denied it before, long enough ago, and has not returned it since.
func (a *absences) deny(key string, at time.Time) bool {
	e := a.entries[key]
	if e.first.IsZero() || at.Sub(e.last) > oldDenial {
		e.first = at
	}
	e.last, e.seen = later(e.last, at), later(e.seen, at)
	a.entries[key] = e
	return e.last.Sub(e.first) >= a.confirmation
}

// begin makes the next denial the first one.
func (a *absences) begin(key string) {
	e := a.entries[key]
	e.first, e.last = time.Time{}, time.Time{}
	a.entries[key] = e
}

// beginAll is begin for all instances.
func (a *absences) beginAll() {
	for key := range a.entries {
		a.begin(key)
	}
}

// suspect records that a list lacked the instance.
func (a *absences) suspect(key string, at time.Time) {
	e := a.entries[key]
	e.seen = later(e.seen, at)
	a.entries[key] = e
}

// live records that the instance exists, and tells whether it was missing.
func (a *absences) live(key string) bool {
	_, missing := a.entries[key]
	delete(a.entries, key)
	return missing
}

func (a *absences) has(key string) bool {
	_, ok := a.entries[key]
	return ok
}

// forget drops instances that were not missing since a time.
func (a *absences) forget(before time.Time) {
	for key, e := range a.entries {
		if e.seen.Before(before) {
			delete(a.entries, key)
		}
	}
}

// due is the earliest time of a request whose denial counts. Until a second denial can confirm the
// absence, the first one is reused. Then the response must not be older than age, unless the mass
// deletion guard withholds it anyway (refused).
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
