package octavia

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// A Snapshot is a list of all load balancers of the project. It does not change.
type Snapshot struct {
	// Begun is when its first request was sent.
	Begun time.Time

	all  []LoadBalancer
	byID map[string]int
	// gone are the load balancers of the previous list that this one lacks.
	gone map[string]bool
}

// ByID returns a load balancer.
func (s *Snapshot) ByID(id string) (LoadBalancer, bool) {
	i, ok := s.byID[id]
	if !ok {
		return LoadBalancer{}, false
	}
	return s.all[i], true
}

// missing returns the load balancers of an earlier list, which may be nil, that this one lacks.
func (s *Snapshot) missing(earlier *Snapshot) map[string]bool {
	missing := map[string]bool{}
	if earlier == nil || !s.Begun.After(earlier.Begun) {
		return missing
	}
	for id := range earlier.byID {
		if _, listed := s.byID[id]; !listed {
			missing[id] = true
		}
	}
	return missing
}

// All returns all load balancers, in the order of their creation.
func (s *Snapshot) All() []LoadBalancer { return slices.Clone(s.all) }

// LoadBalancers lists all load balancers of the project, except DELETED ones. A list that was begun
// less than maxAge ago is returned without a request; with 0, the list begins after the call.
// Concurrent calls share a list.
func (a *API) LoadBalancers(ctx context.Context, maxAge time.Duration) (*Snapshot, error) {
	l := &look{}
	if maxAge > 0 {
		l.newer = a.clock.Now().Add(-maxAge)
	}
	if err := a.look(ctx, l); err != nil {
		return nil, err
	}
	return l.list, nil
}

// LastList returns the last list without a request; nil before the first.
func (a *API) LastList() *Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// look requests load balancers. One request answers a batch of looks.
type look struct {
	// id is the only load balancer of interest; "" for all.
	id string
	// newer is the time that the list must be newer than. Zero: the time of the call.
	newer time.Time

	// The answer is set after the batch: the list, or only the requested load balancer.
	list *Snapshot
	one  *LoadBalancer
	err  error
}

func (a *API) look(ctx context.Context, l *look) error {
	if a.recall(l) {
		return nil
	}
	if err := a.looks.Ask(ctx, l); err != nil {
		return err
	}
	return l.err
}

// recall answers from the last list, if that is new enough.
func (a *API) recall(l *look) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil || l.newer.IsZero() || !a.last.Begun.After(l.newer) {
		return false
	}
	l.list = a.last
	return true
}

func (a *API) answerLooks(ctx context.Context, asked []*look) {
	// The previous batch may have read the list.
	open := slices.DeleteFunc(slices.Clone(asked), a.recall)
	if len(open) == 0 {
		return
	}
	if id := a.onlyOne(open); id != "" {
		lb, err := a.Get(ctx, id)
		for _, l := range open {
			l.one, l.err = &lb, err
		}
		return
	}
	list, err := a.list(ctx, a.newerThan(open))
	for _, l := range open {
		l.list, l.err = list, err
	}
}

// newerThan returns the time from which a list answers all looks.
func (a *API) newerThan(open []*look) (newer time.Time) {
	now := a.clock.Now()
	for _, l := range open {
		if l.newer.IsZero() {
			return now
		}
		newer = later(newer, l.newer.Add(1))
	}
	return newer
}

// onlyOne returns the ID of the load balancer that all looks request, if one request for it
// suffices, else "". While several callers wait, their shared list answers all of them.
func (a *API) onlyOne(open []*look) string {
	id := open[0].id
	for _, l := range open {
		if l.id != id || (!l.newer.IsZero() && a.othersWait()) {
			return ""
		}
	}
	return id
}

func (a *API) othersWait() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting > 1
}

func (a *API) list(ctx context.Context, newer time.Time) (*Snapshot, error) {
	read, begun, err := sharing.Of(ctx, a.share, a.clock, "load balancers", newer, a.readSnapshot)
	if err != nil {
		return nil, fmt.Errorf("list load balancers: %w", err)
	}
	snapshot := &Snapshot{Begun: begun, all: read.all, byID: read.byID}
	a.cache.forgetMissing(snapshot)
	a.mu.Lock()
	defer a.mu.Unlock()
	snapshot.gone = snapshot.missing(a.last)
	a.paces.see(snapshot)
	// A slow list may end after one that was begun later.
	if a.last == nil || snapshot.Begun.After(a.last.Begun) {
		a.last = snapshot
	}
	a.logger.V(4).Info("Listed load balancers", "loadBalancers", len(snapshot.all))
	return snapshot, nil
}

// readSnapshot reads a list, which clusters may share.
func (a *API) readSnapshot(ctx context.Context) (*Snapshot, error) {
	project, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	snapshot := &Snapshot{byID: map[string]int{}}
	query := url.Values{"project_id": {project}, "fields": fieldsOf[shownLoadBalancer]()}
	shown, err := list(ctx, a, "loadbalancers", "loadbalancers", query,
		func(s *shownLoadBalancer) string { return s.ID })
	if err != nil {
		return nil, err
	}
	for i := range shown {
		lb, err := shown[i].value()
		if err != nil {
			return nil, err
		}
		if lb.Status == Deleted {
			continue
		}
		snapshot.byID[lb.ID] = len(snapshot.all)
		snapshot.all = append(snapshot.all, lb)
	}
	return snapshot, nil
}
