package octavia

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// These are bounds of the pause between two looks at a load balancer while Octavia changes it.
const (
	minPause = time.Second / 2
	// maxPause is after the expected end. maxFirstPause is before it.
	maxPause, maxFirstPause = 15 * time.Second, time.Minute
	// If Octavia works on more load balancers than sharingThreshold, their looks share a list, and
	// sharingPause passes between two lists. Between two of its changes a load balancer is not
	// busy, so the sharing continues for sharingPeriod after the number has fallen.
	sharingThreshold, sharingPause, sharingPeriod = 4, 5 * time.Second, 10 * time.Second
)

// paces learns how long Octavia takes for each kind of work, so that few looks come too early. One
// cloud creates a load balancer in two seconds, another in two minutes.
type paces struct {
	mu sync.Mutex
	// typical is how long work of a kind takes; 0: unknown.
	typical map[Status]time.Duration
	// underWay is the work by load balancer ID.
	underWay map[string]*work
	// lastShared is when work last began while Octavia worked on more load balancers than
	// sharingThreshold.
	lastShared time.Time
}

// work is a change of a load balancer in progress.
type work struct {
	// kind is the load balancer's status meanwhile.
	kind  Status
	began time.Time
	// early is when the last look began that came too early; zero for none.
	early time.Time
	// partial: the work was begun earlier, by another client or leader, so its start is unknown.
	partial bool
}

// Begin notes that Octavia has accepted work on a load balancer, which now has this PENDING status.
func (a *API) Begin(id string, kind Status) {
	a.paces.begin(id, &work{kind: kind, began: a.config.Clock.Now()})
}

func (p *paces) begin(id string, w *work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.underWay == nil {
		p.underWay, p.typical = map[string]*work{}, map[Status]time.Duration{}
	}
	p.underWay[id] = w
	if len(p.underWay) > sharingThreshold {
		p.lastShared = w.began
	}
}

// knows reports whether fxccm knows of work on the load balancer.
func (p *paces) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.underWay[id] != nil
}

// NextLook returns the pause before the next look at a load balancer that was PENDING at the last
// one. The look comes when work of its kind usually ends, and after that with pauses of a quarter
// of the passed time. If no duration is known yet, the pause is half of the passed time. While
// Octavia works on many load balancers, the looks share a list.
func (a *API) NextLook(id string, status Status) time.Duration {
	pause := a.nextLook(id, status)
	if last := a.LastList(); last != nil && a.sharesLists() {
		pause = max(pause, sharingPause-a.config.Clock.Since(last.Begun))
	}
	return pause
}

// ListMaxAge is how old a list may be that shows whether a load balancer is ready.
func (a *API) ListMaxAge() time.Duration {
	if a.sharesLists() {
		return sharingPause
	}
	return listMaxAge
}

// sharesLists reports whether Octavia works on many load balancers, or did so a moment ago.
func (a *API) sharesLists() bool {
	a.paces.mu.Lock()
	defer a.paces.mu.Unlock()
	return len(a.paces.underWay) > sharingThreshold ||
		a.config.Clock.Since(a.paces.lastShared) < sharingPeriod
}

func (a *API) nextLook(id string, status Status) time.Duration {
	now := a.config.Clock.Now()
	p := &a.paces
	if !p.knows(id) {
		p.begin(id, &work{kind: status, began: now, partial: true})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.underWay[id]
	if w == nil {
		// Another caller has just seen its end.
		return 0
	}
	waited, typical := now.Sub(w.began), p.typical[w.kind]
	switch {
	case w.partial || !w.early.IsZero() && waited >= typical:
		return min(max(waited/growth(typical), minPause), maxPause)
	case typical == 0:
		typical = a.config.Pause
	}
	return min(max(typical-waited, 0), maxFirstPause)
}

// growth returns the part of the passed time to wait again.
func growth(typical time.Duration) time.Duration {
	if typical == 0 {
		return 2
	}
	return 4
}

// rest is how long Octavia usually still needs for the only work under way, and a quarter more: an
// early change costs as much as the look that it replaces.
func (p *paces) rest(id string, now time.Time) (rest time.Duration, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.underWay[id]
	if w == nil || w.partial || !w.early.IsZero() || len(p.underWay) > 1 ||
		p.typical[w.kind] == 0 {
		return 0, false
	}
	typical := p.typical[w.kind]
	return max(typical+typical/4-now.Sub(w.began), 0), true
}

// see learns from a list. A load balancer that the list lacks may be another project's.
func (p *paces) see(s *Snapshot) {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.underWay))
	p.mu.Unlock()
	for _, id := range ids {
		if lb, listed := s.ByID(id); listed || s.gone[id] {
			p.seeOne(s.Begun, id, lb)
		}
	}
}

// seeOne learns from a look that began at this time. A load balancer without a status does not
// exist.
func (p *paces) seeOne(begun time.Time, id string, lb LoadBalancer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.underWay[id]
	switch {
	case w == nil || begun.Before(w.began):
	case lb.Status.Pending():
		w.early = begun
	default:
		delete(p.underWay, id)
		if isEnd := lb.Status == Active || w.kind == PendingDelete; isEnd && !w.partial {
			p.learn(w, begun, lb)
		}
	}
}

// learn records how long work took that a look has found completed. It adopts shorter durations at
// once. Longer ones count at most twofold, and not while Octavia has other work of the kind,
// because Octavia completes that work one after the other.
func (p *paces) learn(w *work, found time.Time, lb LoadBalancer) {
	took, typical := found.Sub(w.began), p.typical[w.kind]
	built := lb.UpdatedAt.Sub(lb.CreatedAt)
	if w.kind != PendingCreate {
		built = 0
	}
	if w.early.IsZero() {
		// The work may have ended earlier: the next look is a little sooner.
		took -= took / 16
	} else {
		// A look that comes too early again costs more than a quarter of the time between two.
		took = max(took-found.Sub(w.early)/4, min(built, took))
	}
	if built > 0 {
		// Octavia rounds times to the second.
		took = min(took, built+time.Second)
	}
	if typical > 0 && took > typical {
		for _, other := range p.underWay {
			if other.kind == w.kind {
				return
			}
		}
		took = min(took, 2*typical)
	}
	p.typical[w.kind] = took
}
