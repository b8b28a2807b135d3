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
	// shared is the result that callers share.
	shared *Snapshot
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
	if maxAge <= 0 {
		return a.list(ctx, sharing.AfterNow(a.config.Clock))
	}
	return a.list(ctx, a.config.Clock.Now().Add(1-maxAge))
}

// LastList returns the last list without a request; nil before the first.
func (a *API) LastList() *Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func (a *API) othersWait() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting > 1
}

// list lists the load balancers, unless a list exists that was begun at newer or later.
func (a *API) list(ctx context.Context, newer time.Time) (*Snapshot, error) {
	read, begun, err := sharing.Of(ctx, a.config.Share, a.config.Clock, "load balancers",
		newer, a.readSnapshot)
	if err != nil {
		return nil, fmt.Errorf("list load balancers: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && a.last.shared == read {
		return a.last, nil
	}
	snapshot := &Snapshot{Begun: begun, all: read.all, byID: read.byID, shared: read}
	a.cache.forgetMissing(snapshot)
	snapshot.gone = snapshot.missing(a.last)
	a.paces.see(snapshot)
	// A slow list may end after one that was begun later.
	if a.last == nil || snapshot.Begun.After(a.last.Begun) {
		a.last = snapshot
	}
	a.config.Logger.V(4).Info("Listed load balancers", "loadBalancers", len(snapshot.all))
	return snapshot, nil
}

// readSnapshot reads a list, which clusters may share.
func (a *API) readSnapshot(ctx context.Context) (*Snapshot, error) {
	project, err := a.config.Project(ctx)
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
