package octavia

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Bounds of the pause between two looks at a load balancer that Octavia is at work on.
const (
	minPause = time.Second / 2
	// maxPause is after the expected end. maxFirstPause is before it.
	maxPause, maxFirstPause = 15 * time.Second, time.Minute
)

// paces learns how long Octavia takes for each kind of work, so that few looks are too early. One
// cloud creates a load balancer in two seconds, another in two minutes.
type paces struct {
	mu sync.Mutex
	// typical is how long work of a kind takes; 0: unknown.
	typical map[Status]time.Duration
	// underWay is the work by load balancer ID.
	underWay map[string]*work
}

// work is what Octavia does with a load balancer.
type work struct {
	// kind is the load balancer's status meanwhile.
	kind  Status
	began time.Time
	// early is when the last look was begun that came too early; zero for none.
	early time.Time
	// partial: the work was begun before, by another client or leader.
	partial bool
}

// Begin notes that Octavia has accepted work on a load balancer, which has this PENDING status now.
func (a *API) Begin(id string, kind Status) {
	a.paces.begin(id, &work{kind: kind, began: a.clock.Now()})
}

func (p *paces) begin(id string, w *work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.underWay == nil {
		p.underWay, p.typical = map[string]*work{}, map[Status]time.Duration{}
	}
	p.underWay[id] = w
}

// knows tells whether Octavia is at work that fxccm knows of.
func (p *paces) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.underWay[id] != nil
}

// NextLook is the pause until a load balancer that was PENDING at the last look is worth another:
// until work of its kind usually ends, and a quarter of the time that has passed after that. If no
// duration is known yet, the pause is half of the time that has passed.
func (a *API) NextLook(id string, status Status) time.Duration {
	now := a.clock.Now()
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
		typical = a.before
	}
	return min(max(typical-waited, 0), maxFirstPause)
}

// growth is by which part of the passed time to wait again.
func growth(typical time.Duration) time.Duration {
	if typical == 0 {
		return 2
	}
	return 4
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

// seeOne learns from a look that was begun at this time. The load balancer has no status if it does
// not exist.
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

// learn notes how long work took that a look has found ended. It follows shorter durations at once.
// Longer ones count at most twofold, and not while Octavia has other work of the kind: it does that
// one after the other.
func (p *paces) learn(w *work, found time.Time, lb LoadBalancer) {
	took, typical := found.Sub(w.began), p.typical[w.kind]
	if w.early.IsZero() {
		// It may have ended earlier: the next look is a little sooner.
		took -= took / 16
	} else {
		took -= found.Sub(w.early) / 2
	}
	if built := lb.UpdatedAt.Sub(lb.CreatedAt); w.kind == PendingCreate && built > 0 {
		// Octavia tells times to the second.
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
