// Package absence decides when a cloud's denial of an instance may delete the node of the instance.
package absence

import (
	"errors"
	"time"
)

// Reasons why a missing instance is not reported as absent. The node stays unchanged.
var (
	// ErrUnconfirmed: a second denial, after a while, has to confirm the absence.
	ErrUnconfirmed = errors.New("the instance is missing; waiting for confirmation")
	// ErrMassDeletion: the mass deletion guard is active.
	ErrMassDeletion = errors.New("the instance is missing, but too many are missing at once: " +
		"mass deletion guard is active")
)

// Limits are the settings of a [Guard].
type Limits struct {
	// Confirmation is the minimum time between the two denials that confirm an absence.
	Confirmation time.Duration
	// The mass deletion guard is active while Number or more instances are absent, and they are
	// more than this Share of the known ones.
	Number int
	Share  float64
}

// Instance is an instance that the cluster knows.
type Instance struct {
	Key string
	// IsUnlisted reports that the last list of instances lacks it.
	IsUnlisted bool
	// IsLeaving reports that its node is marked for removal; see [IsLeaving].
	IsLeaving bool
}

// Count is the result of a count of absent instances, without those that are leaving.
type Count struct {
	Known, Absent int
	// IsRefused reports that the mass deletion guard is active.
	IsRefused bool
	// HasChanged reports that this count activated or lifted the guard.
	HasChanged bool
}

// Guard withholds the absence of an instance until it is certain. An absence needs two denials, and
// no absence counts while too many instances are absent: then the cloud may answer for another
// project, from a restored database, or without a part of its servers. An instance whose node is
// marked for removal is expected to be absent: it does not count, and two denials suffice.
//
// Times are those of the requests. Guard is not safe for concurrent use.
type Guard struct {
	limits  Limits
	known   func() []Instance
	counted func(Count)

	absences  *absences
	isRefused bool
	// leaving are the keys of the instances that did not count.
	leaving   map[string]bool
	absent    int
	countedAt time.Time
}

// New returns a Guard. known returns the instances of the cluster's nodes; the Guard calls it for
// each count, and counted with the result.
func New(limits Limits, known func() []Instance, counted func(Count)) *Guard {
	return &Guard{
		limits: limits, known: known, counted: counted,
		absences: newAbsences(limits.Confirmation),
	}
}

// IsRefusing reports whether the mass deletion guard is active. Only a recent list of instances can
// lift it.
func (g *Guard) IsRefusing() bool { return g.isRefused }

// Holds counts the absent instances and reports whether the mass deletion guard withholds the
// absence of this one.
func (g *Guard) Holds(key string, now time.Time) bool {
	return g.count(now) && !g.leaving[key]
}

// count reports whether the mass deletion guard is active.
func (g *Guard) count(now time.Time) (isRefused bool) {
	c := Count{}
	g.leaving = map[string]bool{}
	for _, instance := range g.known() {
		if instance.IsLeaving {
			g.leaving[instance.Key] = true
			continue
		}
		c.Known++
		if instance.IsUnlisted || g.absences.has(instance.Key) {
			c.Absent++
		}
	}
	c.IsRefused = c.tooMany(g.limits)
	c.HasChanged = c.IsRefused != g.isRefused
	if c.HasChanged && !c.IsRefused {
		// Denials while the guard was active confirm nothing.
		g.absences.beginAll()
	}
	g.isRefused, g.absent, g.countedAt = c.IsRefused, c.Absent, now
	g.counted(c)
	return c.IsRefused
}

// tooMany reports whether the mass deletion guard must be active.
func (c Count) tooMany(l Limits) bool {
	return c.Absent >= l.Number && float64(c.Absent) > l.Share*float64(c.Known)
}

// Deny records that the cloud denied an instance in the response to a request at a time. It returns
// nil if the absence is confirmed. The denial of an instance that is alive, because its kubelet
// reports, confirms nothing.
//
// Before the caller reports the absence, it makes sure that it has a recent list of all instances
// if [Guard.NeedsList] reports so, and that neither [Guard.Holds] withholds the absence nor a newer
// response shows the instance.
func (g *Guard) Deny(key string, at, now time.Time, isAlive bool) error {
	isConfirmed := g.absences.deny(key, at)
	if isAlive {
		g.absences.begin(key)
	}
	wasRefused := g.isRefused
	switch {
	case g.Holds(key, now):
		return ErrMassDeletion
	case isAlive || wasRefused && !g.leaving[key] || !isConfirmed:
		return ErrUnconfirmed
	}
	return nil
}

// NeedsList reports whether so many instances are known that the guard may have to refuse an
// absence. Then a single denial counts only beside a recent list. With fewer instances, the next
// count lifts the guard.
func (g *Guard) NeedsList() bool { return len(g.known()) >= g.limits.Number }

// Suspect records that a list lacked the instance, and returns [Guard.Holds].
func (g *Guard) Suspect(key string, now time.Time) bool {
	g.absences.suspect(key, now)
	return g.Holds(key, now)
}

// RecountAfter is how long a count with absent instances is valid: their nodes may be deleted at
// any time.
const RecountAfter = time.Second

// Found records that the instance exists.
func (g *Guard) Found(key string, now time.Time) {
	isOutdated := g.absent > 0 && now.Sub(g.countedAt) >= RecountAfter
	if g.absences.live(key) || g.isRefused || isOutdated {
		g.count(now)
	}
}

// Due is the earliest time of a request whose denial counts. Until a second denial can confirm the
// absence, the first one is reused. Then the response must not be older than age, unless the mass
// deletion guard withholds it anyway.
func (g *Guard) Due(key string, now time.Time, age time.Duration) time.Time {
	return g.absences.due(key, now, age, g.isRefused)
}

// Forget drops the denials of instances that were not missing since a time.
func (g *Guard) Forget(before time.Time) { g.absences.forget(before) }
