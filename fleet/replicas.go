package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/fxccm/fxccm/ccm/election"
)

const (
	// fleetLabel is on the Lease of each replica, with the fleet's name.
	fleetLabel = "fxccm.dev/fleet"
	// replicaLabel is on the Lease by which a replica announces itself.
	replicaLabel = "fxccm.dev/fleet-replica"
	// weightAnnotation is on the announcement, too.
	weightAnnotation = "fxccm.dev/fleet-weight"

	// maxWeight limits the weight of an announcement: a forged one attracts no more clusters than
	// 100 replicas. Replicas of all versions must compute the same order, so it must never change.
	maxWeight = 100

	// A replica announces itself every announcePeriod. An announcement is valid for
	// announceDuration.
	announcePeriod   = 4 * time.Second
	announceDuration = 12 * time.Second

	// forgetReplica is the time after which the other replicas delete the announcement of a dead
	// one.
	forgetReplica = 10 * time.Minute
)

// leaseView is what this process has seen of the fleet's Leases. It does not depend on other
// processes' clocks: a Lease is valid for its duration from the moment at which this process saw it
// change. It is safe for concurrent use.
type leaseView struct {
	now func() time.Time
	// longest limits the duration that a Lease may claim. A longer one would delay the clusters of
	// a replica that is gone. The elector of each cluster decides alone whether it may act.
	longest time.Duration

	mu       sync.Mutex
	clusters map[string]seenLease // by Lease name
	replicas map[string]seenLease
	// followers receive the states of a cluster's Lease.
	followers map[string]map[chan election.LeaseState]struct{}
}

type seenLease struct {
	lease  *coordinationv1.Lease
	holder string
	weight int
	// until is when the holder loses the Lease unless it renews. since is the last change.
	since, until time.Time
}

func newLeaseView(now func() time.Time) *leaseView {
	return &leaseView{
		now: now, longest: 2 * announceDuration,
		clusters: map[string]seenLease{}, replicas: map[string]seenLease{},
		followers: map[string]map[chan election.LeaseState]struct{}{},
	}
}

// observe records a Lease, and reports whether its holder or its weight has changed.
// isReplica says whose Lease it is: a label of the Lease does not, because any client that may
// write the Lease of a cluster can add one.
func (v *leaseView) observe(
	lease *coordinationv1.Lease, isReplica, deleted bool,
) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.clusters
	if isReplica {
		of = v.replicas
	}
	last, known := of[lease.Name]
	if deleted {
		delete(of, lease.Name)
		v.tell(lease.Name, election.LeaseState{Seen: v.now()})
		return known
	}
	seen := seenLease{lease: lease, since: v.now()}
	v.tell(lease.Name, election.LeaseState{Lease: lease, Seen: seen.since})
	seen.holder = holderOf(lease)
	if d := lease.Spec.LeaseDurationSeconds; d != nil {
		seen.until = seen.since.Add(min(time.Duration(*d)*time.Second, v.longest))
	}
	weight, _ := strconv.Atoi(lease.Annotations[weightAnnotation])
	seen.weight = max(0, min(weight, maxWeight))
	of[lease.Name] = seen
	return !known || last.holder != seen.holder || last.weight != seen.weight
}

// tell sends the newest state of a Lease to its followers. It replaces a state that they have not
// received yet. The caller holds the lock.
func (v *leaseView) tell(lease string, state election.LeaseState) {
	for follower := range v.followers[lease] {
		select {
		case <-follower:
		default:
		}
		follower <- state
	}
}

// follow returns the states of a Lease until ctx ends, beginning with the current one.
func (v *leaseView) follow(ctx context.Context, lease string) <-chan election.LeaseState {
	states := make(chan election.LeaseState, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.followers[lease] == nil {
		v.followers[lease] = map[chan election.LeaseState]struct{}{}
	}
	v.followers[lease][states] = struct{}{}
	if seen, ok := v.clusters[lease]; ok {
		states <- election.LeaseState{Lease: seen.lease, Seen: seen.since}
	}
	context.AfterFunc(ctx, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.followers[lease], states)
		if len(v.followers[lease]) == 0 {
			delete(v.followers, lease)
		}
		close(states)
	})
	return states
}

// cluster returns the holder of a cluster's Lease and the time of its last change and of its
// expiry. A free Lease has no holder.
func (v *leaseView) cluster(lease string) (holder string, since, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.clusters[lease]
	if !ok {
		return "", time.Time{}, time.Time{}
	}
	if seen.holder != "" && !v.now().Before(seen.until) {
		return "", seen.until, time.Time{}
	}
	return seen.holder, seen.since, seen.until
}

// live returns the live replicas, sorted by identity, and when the first of them expires unless it
// renews.
func (v *leaseView) live() (all []replica, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, seen := range v.replicas {
		if seen.holder == "" || !v.now().Before(seen.until) {
			continue
		}
		all = append(all, replica{identity: seen.holder, weight: seen.weight})
		if until.IsZero() || seen.until.Before(until) {
			until = seen.until
		}
	}
	slices.SortFunc(all, func(a, b replica) int { return strings.Compare(a.identity, b.identity) })
	return all, until
}

// dead returns the announcements that expired, and did not change for forgetReplica.
func (v *leaseView) dead() (all []*coordinationv1.Lease) {
	v.mu.Lock()
	defer v.mu.Unlock()
	limit := v.now().Add(-forgetReplica)
	for _, seen := range v.replicas {
		if !seen.since.After(limit) && !seen.until.After(limit) {
			all = append(all, seen.lease)
		}
	}
	return all
}

// announcer renews this replica's own Lease, and deletes the announcements of dead replicas.
type announcer struct {
	leases coordinationclient.LeaseInterface
	// dead returns the announcements to delete.
	dead func() []*coordinationv1.Lease

	name  string
	fleet string
	self  replica
	// problem receives the result of each announcement.
	problem func(error)
	// timeout limits an announcement.
	timeout time.Duration
}

// run announces the replica until ctx ends. It then withdraws the announcement, so that the other
// replicas take over at once.
func (a *announcer) run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		err := a.announce(ctx)
		if err == nil {
			err = deleteDead(ctx, a.leases, a.dead())
		}
		switch {
		case err == nil:
			a.problem(nil)
		case !errors.Is(ctx.Err(), context.Canceled): // else this replica stops
			a.problem(err)
		}
	}, announcePeriod, 0.1, true)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
	defer cancel()
	if err := a.leases.Delete(last, a.name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		a.problem(fmt.Errorf("take back this replica's announcement: %w", err))
	}
}

func (a *announcer) announce(ctx context.Context) error {
	lease, err := a.leases.Get(ctx, a.name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	switch {
	case missing:
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
	case err != nil:
		return fmt.Errorf("announce this replica: %w", err)
	}
	// The metadata of other clients is removed, so that the update cannot become too large.
	lease.ObjectMeta = metav1.ObjectMeta{
		Name: lease.Name, UID: lease.UID, ResourceVersion: lease.ResourceVersion,
	}
	now, duration := metav1.NowMicro(), int32(announceDuration/time.Second)
	metav1.SetMetaDataLabel(&lease.ObjectMeta, fleetLabel, a.fleet)
	metav1.SetMetaDataLabel(&lease.ObjectMeta, replicaLabel, "true")
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, weightAnnotation, strconv.Itoa(a.self.weight))
	lease.Spec.HolderIdentity = &a.self.identity
	lease.Spec.LeaseDurationSeconds = &duration
	lease.Spec.RenewTime = &now
	if missing {
		lease.Spec.AcquireTime = &now
		_, err = a.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = a.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("announce this replica: %w", err)
	}
	return nil
}
